// Text from bytes. Nothing says in which encoding a file is: what can be told from its bytes is, and there is a menu for the rest.

/** The encodings of the menu, as the Encoding standard names them. */
export const encodings = ["utf-8", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr", "windows-1252", "windows-1251", "utf-16le", "utf-16be"] as const;
export type Encoding = (typeof encodings)[number];

/** Which of the encodings of East Asia the bytes are in is told by what they would say: the commonest characters of each are a tenth of a text. */
const common: [Encoding, RegExp][] = [
  ["gb18030", /[的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实]/g],
  ["big5", /[的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實]/g],
  ["shift_jis", /[ぁ-んァ-ヶー、。]/g],
];
const enough = 64 << 10; // bytes that are looked at

function attempt(bytes: Uint8Array, encoding: Encoding): string | undefined {
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The encoding that the bytes are most likely in. */
export function guessEncoding(bytes: ArrayBuffer): Encoding {
  const head = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength));
  if (head[0] === 0xff && head[1] === 0xfe) return "utf-16le";
  if (head[0] === 0xfe && head[1] === 0xff) return "utf-16be";
  if (attempt(new Uint8Array(bytes), "utf-8") !== undefined) return "utf-8";
  let best: Encoding = "gb18030"; // in which much old Chinese text is
  let most = 0;
  const some = new Uint8Array(bytes, 0, Math.min(enough, bytes.byteLength));
  for (const [encoding, characters] of common) {
    const text = new TextDecoder(encoding).decode(some);
    const broken = text.match(/[\ufffd\ue000-\uf8ff\uff61-\uff9f]/g)?.length ?? 0; // nothing, private, or half as wide: a wrong guess is full of them
    const score = ((text.match(characters)?.length ?? 0) - 3 * broken) / Math.max(1, text.length);
    if (score > most) [best, most] = [encoding, score];
  }
  return best;
}

export function decodeText(bytes: ArrayBuffer, encoding: Encoding = guessEncoding(bytes)): string {
  return new TextDecoder(encoding).decode(bytes);
}
