import { readFileSync } from "node:fs";

/** Milliseconds of a tick of `/proc/stat`. */
const TICK = 10;

/**
 * Milliseconds of CPU that all programs used since the start of the machine, and that its host took from it. Without interrupts,
 * which belong to no program: those of the loopback are the benchmark's own.
 * @param text of `/proc/stat`
 */
export function busyMs(text: string): number {
  const [user, nice, system, , , , , steal] = /^cpu +(.*)$/m.exec(text)![1]!.split(" ").map(Number);
  return (user! + nice! + system! + (steal ?? 0)) * TICK;
}

/** As `busyMs`, of this machine now. */
export function readBusyMs(): number {
  return busyMs(readFileSync("/proc/stat", "utf8"));
}
