import { describe, expect, it } from "vitest";
import { LoraSlots, ResidentAdapters } from "./lora.ts";

describe("adapters in memory", () => {
  const begin = (residents: ResidentAdapters, running: LoraSlots, name: string | undefined): boolean => {
    const load = residents.begin(name, running);
    running.countRunning(name, 1);
    return load;
  };
  const end = (residents: ResidentAdapters, running: LoraSlots, name: string | undefined): void => {
    running.countRunning(name, -1);
    residents.end(name);
  };

  it("the base model needs none", () => {
    const residents = new ResidentAdapters(1);
    expect(residents.begin(undefined, new LoraSlots(1))).toBe(false);
    residents.end(undefined);
    expect(residents.names).toEqual([]);
  });

  it("an unused adapter stays loaded until another adapter needs its slot", () => {
    const [residents, running] = [new ResidentAdapters(1), new LoraSlots(1)];
    expect(begin(residents, running, "a")).toBe(true);
    expect(begin(residents, running, "a")).toBe(false);
    end(residents, running, "a");
    end(residents, running, "a");
    expect(begin(residents, running, "a")).toBe(false);
    end(residents, running, "a");
    expect(begin(residents, running, "b")).toBe(true);
    expect(residents.names).toEqual(["b"]);
  });

  it("one in use stays however long ago it was begun, and its last use is its end", () => {
    const [residents, running] = [new ResidentAdapters(2), new LoraSlots(2)];
    begin(residents, running, "a");
    begin(residents, running, "b");
    end(residents, running, "b");
    expect(begin(residents, running, "c")).toBe(true);
    expect(residents.names).toEqual(["a", "c"]);
    end(residents, running, "c");
    end(residents, running, "a");
    begin(residents, running, "d");
    expect(residents.names).toEqual(["a", "d"]);
  });
});
