import { describe, expect, it } from "vitest";
import { dispatcherName, dispatchersIn } from "./presence.ts";

const line = (name: string, db = 0): string =>
  `id=7 addr=127.0.0.1:5 laddr=127.0.0.1:6379 fd=8 name=${name} age=1 idle=0 flags=t db=${db} sub=0 cmd=evalsha user=default`;

describe("the name of a dispatcher's connection", () => {
  it("has no character that a name cannot have, whatever the queues are called", () => {
    expect(dispatcherName(["a b", "ä\n", "x".repeat(10_000)])).toMatch(/^[!-~]+$/);
    expect(dispatcherName([])).toMatch(/^[!-~]+$/);
  });

  it("tells which queues it serves, and no others", () => {
    const list = [line(dispatcherName(["a", "b"])), line(dispatcherName(["b"])), line("sluice"), line("")].join("\n");
    expect(["a", "b", "c", ""].map((queue) => dispatchersIn(list, 0, queue))).toEqual([1, 2, 0, 0]);
  });

  it("counts only connections to the same database", () => {
    const list = [line(dispatcherName(["a"]), 1), line(dispatcherName(["a"]), 11)].join("\n");
    expect([0, 1, 11].map((database) => dispatchersIn(list, database, "a"))).toEqual([0, 1, 1]);
  });

  it("is short with very many queues, and then stands for all of them", () => {
    const many = dispatcherName(Array.from({ length: 10_000 }, (_, i) => `q${i}`));
    expect(many.length).toBeLessThan(100);
    expect(dispatchersIn(line(many), 0, "any")).toBe(1);
    expect(dispatcherName(Array.from({ length: 200 }, (_, i) => `q${i}`)).length).toBeLessThan(3000);
  });

  it("finds nothing in an answer that is no list", () => {
    expect(dispatchersIn("", 0, "a")).toBe(0);
    expect(dispatchersIn("name=sluice-dispatch:\n", 0, "a")).toBe(0);
  });
});
