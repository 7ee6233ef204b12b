import { SluiceError } from "../../base/inference/errors.ts";
import { type TimeRange, timeFlag, wholeFlag } from "./flag-values.ts";

/** How the pickers of a simulation hear of each other. */
export interface SimSharing {
  /** Milliseconds from the sender to each other picker. */
  readonly delayMs: number;
  /** Share of the messages that a picker does not get, 0 to 1; those of the log come later. Each picker misses others. */
  readonly loss: number;
  /** Whether they know all of each other after that time, and plan for nothing, as `LateTwins` says; absent = no. Nothing is lost then. */
  readonly exact?: boolean;
}

/** The pickers of a simulation. */
export interface SimPickers {
  /** From 1 up. */
  readonly count: number;
  /** Undefined = each picker knows only its own requests. */
  readonly sharing: SimSharing | undefined;
}

/** The flags of the pickers of a simulation, as text. */
export interface PickerFlags {
  readonly pickers?: string | undefined;
  readonly peerDelay?: string | undefined;
  readonly peerLoss?: string | undefined;
}

const MAX_PICKERS = 64;
const DELAY: TimeRange = {
  least: 0,
  most: 60_000,
  wanted: "a time from 0 to 1m, for example 20ms, or off: the pickers share nothing",
};
/** A store in the same zone, and the 20 ms that a picker gathers before it sends. */
const USUAL_DELAY = 20;

/** @returns undefined where one picker decides everything @throws SluiceError FLAG_VALUE, FLAG_CONFLICT */
export function pickersOf({ pickers, peerDelay, peerLoss }: PickerFlags): SimPickers | undefined {
  const count = pickers === undefined ? 1 : wholeFlag(pickers, "--pickers", 1, MAX_PICKERS);
  const given = peerDelay !== undefined ? "--peer-delay" : peerLoss !== undefined ? "--peer-loss" : undefined;
  if (count === 1) {
    if (given === undefined) return undefined;
    throw new SluiceError("FLAG_CONFLICT", `${given} needs pickers that share what they know: add --pickers 2 or more`);
  }
  if (peerDelay === "off") {
    if (peerLoss === undefined) return { count, sharing: undefined };
    throw new SluiceError("FLAG_CONFLICT", "--peer-loss has no effect with --peer-delay off: remove one of them");
  }
  const delayMs = timeFlag(peerDelay, "--peer-delay", DELAY) ?? USUAL_DELAY;
  return { count, sharing: { delayMs, loss: peerLoss === undefined ? 0 : lossOf(peerLoss) } };
}

function lossOf(text: string): number {
  const loss = Number(text);
  if (/^\d*\.?\d+$/.test(text) && loss <= 1) return loss;
  throw new SluiceError(
    "FLAG_VALUE",
    `--peer-loss is ${JSON.stringify(text.slice(0, 100))}; give the share of lost messages from 0 to 1, for example 0.05`,
  );
}

/** For people: `4 pickers that hear from each other after 20 ms`. */
export function pickersText({ count, sharing }: SimPickers): string {
  if (sharing === undefined) return `${count} pickers that share nothing`;
  const lost = sharing.loss === 0 ? "" : `, ${Number((100 * sharing.loss).toFixed(2))} % of the messages lost`;
  return `${count} pickers that hear from each other after ${sharing.delayMs} ms${lost}`;
}
