import { describe, expect, it } from "vitest";
import { faultsOf, passiveShare, readingOf, sentencesOf } from "./words.ts";

const words = (count: number): string => `${Array.from({ length: count }, (_, i) => `w${i}`).join(" ")}.`;

describe("the sentences of a page", () => {
  it("are those of paragraphs, headings, list items and cells; code is one word, blocks and comments are none", () => {
    const page = [
      "# A title",
      "First sentence of a",
      "paragraph. `sluice sim` is the second, e.g. `a b` or [a link](x.md). Version 1.5 is third!",
      "",
      "* an item",
      "  that goes on",
      "* **another** item",
      "",
      "| Head | |",
      "|---|---|",
      "| one cell | other cell. With two |",
      "",
      "```",
      "Nothing of this.",
      "```",
      "<!-- not this: either -->",
      "![nor this](a.png)",
      "1. last",
    ];
    expect(sentencesOf(page.join("\n"))).toEqual([
      "A title",
      "First sentence of a paragraph.",
      "Code is the second, e.g. Code or a link.",
      "Version 1.5 is third!",
      "an item that goes on",
      "another item",
      ...["Head", "one cell", "other cell.", "With two"].map((cell) => expect.stringContaining(cell)),
      "last",
    ]);
  });
});

describe("the reading of a page", () => {
  it("counts words, and sentences of more than 30", () => {
    const reading = readingOf(`${words(30)} ${words(31).replace("w0", "W0")}`);
    expect(reading).toMatchObject({ words: 61, sentences: 2 });
    expect(reading.long).toHaveLength(1);
  });

  it.each(["The file is read.", "Messages are not sent.", "A lease was quickly renewed.", "It has been sent."])(
    "takes %s for passive",
    (text) => {
      expect(readingOf(text).passive).toEqual([text]);
      expect(passiveShare(readingOf(`${text} The picker reads it.`))).toBe(50);
    },
  );

  it.each(["The picker reads the file.", "It is red.", "There is need for it.", "A `cached` prefix is here."])(
    "takes %s for active",
    (text) => {
      expect(readingOf(text).passive).toEqual([]);
    },
  );

  it.each([
    "Clients are told the reason.",
    "Whoever asks waits.",
    "A server that nobody uses.",
    "The end thereof.",
    "A queue of whichever kind.",
    "It counts from then on.",
    "It takes as much as it may.",
    "Leave out what is down.",
    "What the client sends goes on.",
    "Who asks gets an answer.",
    "Each look takes 5 ms.",
    "The record stands in the log.",
  ])("finds what to avoid in: %s", (text) => {
    expect(readingOf(text).avoided).toHaveLength(1);
  });

  it.each([
    "## What it replaces",
    "What does the picker do?",
    "Tests use a stand-in of the server.",
    "K stands for thousand.",
    "Run `told whoever`.",
  ])("finds nothing to avoid in: %s", (text) => {
    expect(readingOf(text).avoided).toEqual([]);
  });

  it("is a fault only above the limits, with the sentences to change", () => {
    const reading = readingOf(`${words(31)}\n\nNobody is told.`);
    expect(faultsOf(reading, { long: 1, passive: 50, avoided: 2, words: reading.words })).toEqual([]);
    expect(faultsOf(reading, { long: 1, passive: 50, avoided: 2, words: reading.words - 1 })).toEqual([
      `words: ${reading.words}, limit ${reading.words - 1}:`,
    ]);
    const faults = faultsOf(reading, { long: 0, passive: 49, avoided: 1 }).join("\n");
    expect(faults).toContain("sentences over 30 words: 1, limit 0:\n  w0 w1");
    expect(faults).toContain("percent of passive sentences: 50, limit 49:\n  Nobody is told.");
    expect(faults).toContain("avoided words: 2, limit 1:");
  });
});
