import { describe, expect, it } from "vitest";
import { queueOf } from "../../../test/support/brokers/broker.cases.ts";
import type { Claim } from "./broker.ts";
import { ClaimBuffer } from "./claim-buffer.ts";
import { parseBareRequest } from "./messages/envelope.ts";

const NOW = 1_800_000_000_000;
const SOON = NOW / 1000 + 60;
const PAST = NOW / 1000 - 60;

function claim(id: string, deadline = SOON, size = 0): Claim {
  const text = JSON.stringify({ id, deadline, payload: { text: "x".repeat(size) } });
  const message = parseBareRequest(text, {}, { retryCount: 0, correlationId: "", requestQueueName: "q" });
  return { id, queue: queueOf("q"), message, cancelled: false, publishedAt: Number.NaN, lost: false };
}

function bufferOf(...claims: Claim[]): ClaimBuffer {
  const buffer = new ClaimBuffer({ claims: 10, bytes: 10_000 });
  for (const each of claims) buffer.add(each);
  return buffer;
}

const ids = (claims: readonly Claim[]): string => claims.map(({ id }) => id).join();

describe("claims in memory", () => {
  it("go out oldest first, as many as wanted, and the rest stays in order", () => {
    const buffer = bufferOf(...["a", "b", "c", "d"].map((id) => claim(id)));
    expect(ids(buffer.take({ max: 2, expired: 5 }, NOW))).toBe("a,b");
    expect(ids(buffer.take({ max: 0, expired: 5 }, NOW))).toBe("");
    expect(ids(buffer.take({ max: 9, expired: 0 }, NOW))).toBe("c,d");
    expect(buffer.claims).toEqual([]);
  });

  it("expired ones come besides, from anywhere, and stand in nobody's way (A-48)", () => {
    const buffer = bufferOf(claim("x", PAST), claim("a"), claim("y", PAST), claim("b"), claim("z", PAST));
    expect(ids(buffer.take({ max: 1, expired: 0 }, NOW))).toBe("a");
    expect(ids(buffer.take({ max: 0, expired: 2 }, NOW))).toBe("x,y");
    expect(ids(buffer.take({ max: 5, expired: 5 }, NOW))).toBe("b,z");
  });

  it("expire while they wait", () => {
    const buffer = bufferOf(claim("a"), claim("b", SOON + 60));
    expect(ids(buffer.take({ max: 0, expired: 5 }, NOW))).toBe("");
    expect(ids(buffer.take({ max: 0, expired: 5 }, NOW + 61_000))).toBe("a");
    expect(ids(buffer.take({ max: 0, expired: 5 }, NOW + 61_000))).toBe("");
    expect(ids(buffer.take({ max: 0, expired: 5 }, NOW + 121_000))).toBe("b");
  });

  it("whose lease was lost are not handed out", () => {
    const [a, b] = [claim("a"), claim("b")];
    const buffer = bufferOf(a, b);
    a.lost = true;
    expect(ids(buffer.take({ max: 2, expired: 0 }, NOW))).toBe("b");
    expect(buffer.claims).toEqual([]);
  });

  it("are bounded in number", () => {
    const buffer = bufferOf(...Array.from({ length: 10 }, (_, at) => claim(`${at}`)));
    expect(buffer.room).toBe(0);
    buffer.take({ max: 3, expired: 0 }, NOW);
    expect(buffer.room).toBe(3);
  });

  it("are bounded in bytes", () => {
    const buffer = bufferOf(claim("a", SOON, 6000));
    expect(buffer.room).toBe(9);
    buffer.add(claim("b", SOON, 6000));
    expect(buffer.room).toBe(0);
    buffer.take({ max: 1, expired: 0 }, NOW);
    expect(buffer.room).toBe(9);
  });
});
