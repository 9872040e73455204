# Prints the known answers of part_test.go and proof_test.go. It shares nothing with the Go code: BLAKE3 is written here after
# sections 2.1-2.3 of its paper, plainly and slowly. Run: python3 vectors.py
import hashlib
import hmac
import struct

IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
PERM = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
START, END, PARENT, ROOT, KEYED = 1, 2, 4, 8, 16
MASK = 0xFFFFFFFF


def rotr(x, n):
    return ((x >> n) | (x << (32 - n))) & MASK


def compress(cv, block, counter, length, flags):
    s = cv + IV[:4] + [counter & MASK, counter >> 32, length, flags]
    m = list(struct.unpack("<16I", block.ljust(64, b"\0")))

    def g(a, b, c, d, x, y):
        s[a] = (s[a] + s[b] + x) & MASK
        s[d] = rotr(s[d] ^ s[a], 16)
        s[c] = (s[c] + s[d]) & MASK
        s[b] = rotr(s[b] ^ s[c], 12)
        s[a] = (s[a] + s[b] + y) & MASK
        s[d] = rotr(s[d] ^ s[a], 8)
        s[c] = (s[c] + s[d]) & MASK
        s[b] = rotr(s[b] ^ s[c], 7)

    for _ in range(7):
        for i in range(4):
            g(i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1])
        for i in range(4):
            g(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i], m[9 + 2 * i])
        m = [m[i] for i in PERM]
    return [s[i] ^ s[i + 8] for i in range(8)]


def subtree(data, key, flags, counter, root):
    if len(data) <= 1024:
        cv, blocks = key, max(1, (len(data) + 63) // 64)
        for i in range(blocks):
            block = data[i * 64 : i * 64 + 64]
            f = flags | (START if i == 0 else 0) | (END | root if i == blocks - 1 else 0)
            cv = compress(cv, block, counter, len(block), f)
        return cv
    left = 1 << ((len(data) + 1023) // 1024 - 1).bit_length() - 1
    a = subtree(data[: left * 1024], key, flags, counter, 0)
    b = subtree(data[left * 1024 :], key, flags, counter + left, 0)
    return compress(key, struct.pack("<16I", *(a + b)), 0, 64, flags | PARENT | root)


def blake3(data, key=None, counter=0, root=ROOT):
    words = list(struct.unpack("<8I", key)) if key else IV
    return struct.pack("<8I", *subtree(data, words, KEYED if key else 0, counter, root)).hex()


content = bytes((i * 31 + i // 251) & 255 for i in range(70000))
K = 1024
print("cv of [0, 64K)  ", blake3(content[: 64 * K], root=0))
print("cv of [64K, end)", blake3(content[64 * K :], counter=64, root=0))
print("cv of [32K, 64K)", blake3(content[32 * K : 64 * K], counter=32, root=0))
print("root of [0, 64K)", blake3(content[: 64 * K]))
print("root            ", blake3(content))
print("root of nothing ", blake3(b""))

nonce = bytes(range(32))
ranges = [(0, 4096), (1000, 17), (65536, 4464)]
message = b"".join(struct.pack("<QI", o, n) + content[o : o + n] for o, n in ranges)
print("hmac-sha256     ", hmac.new(nonce, message, hashlib.sha256).hexdigest())
print("blake3 keyed    ", blake3(message, nonce))
