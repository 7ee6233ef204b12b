import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../base/inference/errors.ts";
import { DEFAULT_WIRE_OPTIONS } from "../../wires/extproc/wire-options.ts";
import { parseGoFlags } from "../common/go-flags.ts";
import { learnsBytesPerTokenOf, maxRequestBodyOf, releaseOf, WIRE_FLAGS, wireOf } from "./wire-flags.ts";

const wire = (...args: string[]) => wireOf(parseGoFlags(args, WIRE_FLAGS, {}), true);

describe("the flags of the wire", () => {
  it("ask for the protocol's defaults when none is given (C-1 to C-14)", () => {
    expect(wire()).toEqual(DEFAULT_WIRE_OPTIONS);
  });

  it.each([
    [["--destination-endpoint-hint-key=x-picked"], { destinationKey: "x-picked" }],
    [["-destinationEndpointHintKey", "x-picked"], { destinationKey: "x-picked" }],
    [["-DestinationEndpointHintMetadataNamespace", "other.lb"], { destinationNamespace: "other.lb" }],
    [["-destinationEndpointHintMetadataNamespace="], { destinationNamespace: "" }],
    [["--destination-endpoint-hint-metadata-namespace", "n"], { destinationNamespace: "n" }],
    [["--ext-proc-mode=buffered"], { defaultBodyMode: "buffered" }],
    [["--ext-proc-mode", "Streamed"], { defaultBodyMode: "streamed" }],
    [["--ext-proc-mode=none"], { defaultBodyMode: "none" }],
    [["--strict-body-mode"], { strictBodyMode: true }],
    [["--fallback-mode=legacy-key"], { fallbackMode: "legacy-key" }],
    [["--fallback-mode=none"], { fallbackMode: "none" }],
    [["--subset-match=ip"], { subsetMatch: "ip" }],
    [["--emit-dropped-reason=false"], { emitDroppedReason: false }],
    [["--echo-unchanged-headers=false"], { echoUnchangedHeaders: false }],
    [["--emit-request-id=false"], { emitRequestId: false }],
    [["--remove-control-headers=false"], { removeControlHeaders: false }],
    [["--append-action=literal"], { literalAppendAction: true }],
    [["--close-early"], { closeEarly: true }],
    [["--legacy-header-only-500"], { legacyHeaderOnly500: true }],
    [["--message-timeout-hint=200ms"], { messageTimeoutHint: 200 }],
    [["--message-timeout-max=2s"], { messageTimeoutMax: 2000 }],
    [["--ext-proc-response-mode=none"], { defaultResponseBodyMode: "none" }],
  ])("%j changes that and nothing else (E-14, E-121)", (args, changed) => {
    expect(wire(...args)).toEqual({ ...DEFAULT_WIRE_OPTIONS, ...changed });
  });

  it("behave as v1.5 with one switch, explicit flags excepted", () => {
    const parity = {
      ...DEFAULT_WIRE_OPTIONS,
      legacyHeaderOnly500: true,
      subsetMatch: "ip",
      emitDroppedReason: false,
      emitRequestId: false,
      removeControlHeaders: false,
    };
    expect(wire("--parity", "v1.5")).toEqual(parity);
    const body = (...args: string[]) => maxRequestBodyOf(parseGoFlags(args, WIRE_FLAGS, {}));
    expect([body(), body("--parity=v1.5"), body("--parity=v1.5", "--max-request-body=1Mi")]).toEqual([
      2 ** 25,
      2 ** 30,
      2 ** 20,
    ]);
    const learns = (...args: string[]) => learnsBytesPerTokenOf(parseGoFlags(args, WIRE_FLAGS, {}));
    expect([learns(), learns("--learn-bytes-per-token=false"), learns("--parity=v1.5")]).toEqual([true, false, false]);
    expect(learns("--parity=v1.5", "--learn-bytes-per-token")).toBe(true);
    const release = (...args: string[]) => releaseOf(parseGoFlags(args, WIRE_FLAGS, {}));
    expect([release(), release("--parity", "v1.5")]).toEqual(["", "v1.5"]);
    expect(wire("--emit-dropped-reason=true", "--parity=v1.5", "--subset-match=exact")).toEqual({
      ...parity,
      emitDroppedReason: true,
      subsetMatch: "exact",
    });
  });

  it("serve buffered bodies when v0.3's variable says so and no flag says otherwise", () => {
    const streamingOff = (...args: string[]) => wireOf(parseGoFlags(args, WIRE_FLAGS, {}), false).defaultBodyMode;
    expect(streamingOff()).toBe("buffered");
    expect(streamingOff("--ext-proc-mode=full-duplex")).toBe("full-duplex");
  });

  it.each([
    [
      "--ext-proc-mode=bufered",
      '--ext-proc-mode="bufered" is not valid: the flag takes one of full-duplex, buffered, streamed, none; did you mean `buffered`?',
    ],
    ["--parity=v2", '--parity="v2" is not valid: the flag takes one of v1.5'],
    ["--append-action=3", '--append-action="3" is not valid: the flag takes one of unset, literal'],
    ["--destination-endpoint-hint-key=", '--destination-endpoint-hint-key="" is not the name of a header'],
    ["--destination-endpoint-hint-key=:path", '--destination-endpoint-hint-key=":path" is not the name of a header'],
    ["--destination-endpoint-hint-key=a b", '--destination-endpoint-hint-key="a b" is not the name of a header'],
  ])("refuse %s", (arg, message) => {
    let refused: unknown;
    try {
      wire(arg);
    } catch (error) {
      refused = error;
    }
    expect((refused as SluiceError).code).toBe("FLAG_VALUE");
    expect((refused as SluiceError).message).toBe(message);
  });
});
