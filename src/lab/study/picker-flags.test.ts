import { describe, expect, it } from "vitest";
import { pickersOf, pickersText } from "./picker-flags.ts";

describe("the flags of pickers", () => {
  it.each([
    [{}, undefined],
    [{ pickers: "1" }, undefined],
    [{ pickers: "4" }, { count: 4, sharing: { delayMs: 20, loss: 0 } }],
    [
      { pickers: "2", peerDelay: "150ms", peerLoss: "0.05" },
      { count: 2, sharing: { delayMs: 150, loss: 0.05 } },
    ],
    [
      { pickers: "64", peerDelay: "0", peerLoss: "1" },
      { count: 64, sharing: { delayMs: 0, loss: 1 } },
    ],
    [
      { pickers: "3", peerDelay: "off" },
      { count: 3, sharing: undefined },
    ],
  ])("%j", (flags, expected) => {
    expect(pickersOf(flags)).toEqual(expected);
  });

  it.each([
    [{ pickers: "0" }, "FLAG_VALUE", "--pickers"],
    [{ pickers: "65" }, "FLAG_VALUE", "1 to 64"],
    [{ pickers: "2", peerDelay: "2m" }, "FLAG_VALUE", "off"],
    [{ pickers: "2", peerDelay: "soon" }, "FLAG_VALUE", "--peer-delay"],
    [{ pickers: "2", peerLoss: "5" }, "FLAG_VALUE", "from 0 to 1"],
    [{ pickers: "2", peerLoss: "-0.1" }, "FLAG_VALUE", "--peer-loss"],
    [{ peerDelay: "20ms" }, "FLAG_CONFLICT", "--pickers"],
    [{ pickers: "1", peerLoss: "0.1" }, "FLAG_CONFLICT", "--peer-loss"],
    [{ pickers: "2", peerDelay: "off", peerLoss: "0.1" }, "FLAG_CONFLICT", "off"],
  ])("%j is refused: it would have no effect, or is no value", (flags, code, text) => {
    expect(() => pickersOf(flags)).toThrow(expect.objectContaining({ code, message: expect.stringContaining(text) }));
  });

  it("are told in the heading of the results", () => {
    expect(pickersText({ count: 4, sharing: { delayMs: 20, loss: 0.055 } })).toBe(
      "4 pickers that hear from each other after 20 ms, 5.5 % of the messages lost",
    );
    expect(pickersText({ count: 2, sharing: undefined })).toBe("2 pickers that share nothing");
  });
});
