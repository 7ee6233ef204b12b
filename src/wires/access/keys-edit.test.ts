import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { keysIn } from "./key-entry.ts";
import { KeyTable } from "./key-table.ts";
import { KeysEdit } from "./keys-edit.ts";

const NOW = Date.parse("2026-06-01T12:00:00.500Z");
const edit = (text: string) => new KeysEdit(text, "keys.yaml");
const table = (text: string) => new KeyTable(keysIn(parseDocument(text, { file: "keys.yaml" })));

describe("a keys file", () => {
  it("gets a key that a gateway finds, and no part of its secret", () => {
    const { text, key, entry } = edit("").add({ name: "a", models: ["m"], expires: NOW + 60_000 }, NOW);
    expect(text).toMatch(/^# The keys of a gateway[\s\S]*\nkeys:\n {2}- id: \w{12}\n {4}name: a\n/);
    expect(text).toContain("createdAt: 2026-06-01T12:00:00Z\n");
    expect(text).toContain("expires: 2026-06-01T12:01:00Z\n");
    expect(text).not.toContain(key.slice(-43));
    expect(text).not.toMatch(/choosesFlow|background/);
    expect(table(text).find(key, NOW)).toMatchObject({ id: entry.id, name: "a", models: new Set(["m"]) });
  });

  it("keeps comments and other entries through every change", () => {
    const first = edit("").add({ name: "a" }, NOW);
    const noted = `${first.text.replace("name: a", "name: a # of the web team")}\n# the end\n`;
    const second = edit(noted).add(
      { name: "b", priority: -1, choosesFlow: true, background: true, fairnessId: "f" },
      NOW,
    );
    const third = edit(second.text).rotate("b", 1000, NOW);
    const last = edit(third.text).revoke("a", NOW);
    expect(last.text).toContain("name: a # of the web team");
    expect(last.text).toContain("# the end");
    const found = table(last.text);
    expect(found.find(first.key, NOW)).toBe("revoked");
    expect(found.find(second.key, NOW)).toMatchObject({ name: "b", priority: -1, choosesFlow: true, fairnessId: "f" });
    expect(found.find(third.key, NOW)).toEqual(found.find(second.key, NOW));
    expect(found.hasBackground).toBe(true);
    // `until` has whole seconds.
    expect(found.find(second.key, NOW + 1000)).toBe("expired");
  });

  it.each(["keys:\n", "keys: []\n", "# mine\n", "keys: null\n"])("may be empty before: %j", (before) => {
    const { text, key } = edit(before).add({ name: "a" }, NOW);
    expect(table(text).find(key, NOW)).toMatchObject({ name: "a" });
    if (before.includes("#")) expect(text).toContain(before.slice(before.indexOf("#")).trim());
  });

  it("after a rotation without grace refuses the old secret at once, and that before the last grace too", () => {
    const first = edit("").add({ name: "a" }, NOW);
    const second = edit(first.text).rotate("a", 3_600_000, NOW);
    const third = edit(second.text).rotate(first.entry.id, 0, NOW);
    for (const { key } of [first, second]) expect(table(third.text).find(key, NOW)).toBe("unknown");
    expect(table(third.text).find(third.key, NOW)).toMatchObject({ id: first.entry.id });
    expect(third.text).not.toContain("previous");
  });

  it("a revocation counts for both secrets, and the first one's time stays", () => {
    const first = edit("").add({ name: "a" }, NOW);
    const second = edit(first.text).rotate("a", 3_600_000, NOW);
    const revoked = edit(edit(second.text).revoke("a", NOW).text).revoke("a", NOW + 60_000);
    expect(table(revoked.text).find(first.key, NOW)).toBe("unknown");
    expect(table(revoked.text).find(second.key, NOW)).toBe("revoked");
    expect(revoked.text).toContain("revoked: 2026-06-01T12:00:00Z");
  });

  it("loses a key that is removed, and its name is free", () => {
    const first = edit("").add({ name: "a" }, NOW);
    const without = edit(first.text).remove("a");
    expect(without.entry.name).toBe("a");
    expect(table(without.text).find(first.key, NOW)).toBe("unknown");
    expect(() => edit(without.text).add({ name: "a" }, NOW)).not.toThrow();
  });

  it("refuses what makes no sense, with a hint", () => {
    const { text } = edit("").add({ name: "team-a" }, NOW);
    expect(() => edit(text).add({ name: "team-a" }, NOW)).toThrow(/already has a key "team-a".*rotate/);
    expect(() => edit(text).revoke("team-b", NOW)).toThrow(/has no key "team-b"; did you mean `team-a`\?/);
    expect(() => edit(text).revoke("unlike", NOW)).toThrow(/has no key "unlike"; sluice keys list shows the names/);
    expect(() => edit(edit(text).revoke("team-a", NOW).text).rotate("team-a", 0, NOW)).toThrow(
      /was revoked; add a new key/,
    );
    expect(() => edit("keys: 7")).toThrow(/keys\.yaml:1:1: keys: expected a list/);
    expect(() => edit("").add({ name: "a\u0000b" }, NOW)).toThrow(/must not have control characters/);
  });
});
