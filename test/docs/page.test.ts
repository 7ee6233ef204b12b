import { describe, expect, it } from "vitest";
import { blocksOf, shapeOf } from "./page.ts";

const FENCE = "```";

describe("the command blocks of a page", () => {
  it("are those with a prompt or a known program; pictures, configurations and output are none", () => {
    const text = [
      ...["text", "", FENCE, "$ sluice a   # why", "answer 1", "", "$ sluice b \\", "    --flag", FENCE],
      ...["", FENCE, "client ──▶ server", FENCE, "", `${FENCE}yaml`, "curl a", FENCE],
      ...[
        "",
        "<!-- given: cp a b -->",
        "<!-- ended: sluice dispatch -->",
        "<!-- not run: it needs a cluster -->",
        FENCE,
        "kubectl get a",
        "curl x",
        FENCE,
      ],
    ];
    expect(blocksOf(text.join("\n"))).toEqual([
      {
        line: 3,
        commands: [
          { text: "sluice a   # why", line: 4, shown: ["answer 1"] },
          { text: "sluice b \\\n    --flag", line: 7, shown: [] },
        ],
        notRun: undefined,
        given: [],
        ended: [],
      },
      {
        line: 22,
        commands: [
          { text: "kubectl get a", line: 23, shown: [] },
          { text: "curl x", line: 24, shown: [] },
        ],
        notRun: "it needs a cluster",
        given: ["cp a b"],
        ended: ["sluice dispatch"],
      },
    ]);
  });

  it("show output of which figures and ids are others each time", () => {
    expect("listening name=gateway address=127.0.0.1:8080 pid=9").toMatch(
      shapeOf("listening name=gateway address=127.0.0.1:8080 pid=4711"),
    );
    expect("listening name=admin address=127.0.0.1:8080 pid=9").not.toMatch(
      shapeOf("listening name=gateway address=1"),
    );
    expect('{"id":"0f2c9f3f-0000-4b8e-a2f7-7d9a1c1e4a0e","status_code":200,"payload":"x"}').toMatch(
      shapeOf('{"id":"7d9a1c1e-4a0e-4b8e-a2f7-0f2c9f3f8f6a","status_code":200,"payload":"..."}'),
    );
    expect("default  12 ms").toMatch(shapeOf("default                  27 ms"));
    expect("sticky  12 ms").not.toMatch(shapeOf("default                  27 ms"));
  });
});
