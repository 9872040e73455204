const choices: Record<string, readonly string[]> = {
  "instant-scope": ["instance", "user", "off"],
  "dav-litter": ["keep", "hide", "refuse"],
  "log-level": ["debug", "info", "warn", "error"],
};

/** The values among which one chooses; none: it is written. */
export const choicesOf = (setting: string): readonly string[] => choices[setting] ?? [];
