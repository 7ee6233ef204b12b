import { describe, expect, it } from "vitest";
import { VirtualClock } from "../clock/virtual.ts";
import type { Logger } from "../telemetry/logger.ts";
import { refusedClientLog } from "./refused-client.ts";

describe("the log of refused clients", () => {
  it("has each reason once a minute, with the address of the client", () => {
    const clock = new VirtualClock();
    const lines: string[] = [];
    const warn = ({ address }: { address?: string }, text: string): void => void lines.push(`${address}: ${text}`);
    const refused = refusedClientLog("ext_proc port", clock, { warn } as unknown as Logger);
    for (let n = 0; n < 1000; n++) refused("no certificate", `10.0.0.${n}`);
    refused("expired", "10.0.0.7");
    const said = "a client of the ext_proc port was refused:";
    expect(lines).toEqual([`10.0.0.0: ${said} no certificate`, `10.0.0.7: ${said} expired`]);
    clock.advance(60_000);
    refused("no certificate", "10.0.0.9");
    expect(lines.slice(2)).toEqual([`10.0.0.9: ${said} no certificate`]);
  });
});
