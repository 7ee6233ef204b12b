import { type Accepted, P, type Refused, type Spec, says, V } from "./verdicts.cases.ts";

const service = { group: "", kind: "Service", name: "epp", failureMode: "FailClose" };
const extension = (change: Spec) => ({ extensionRef: { name: "epp", ...change } });
const picker = (change: Spec) => ({ endpointPickerRef: { name: "epp", port: { number: 9002 }, ...change } });
const ports = (count: number) => ({ targetPorts: Array.from({ length: count }, (_, i) => ({ number: 8000 + i })) });
const matchLabels = (count: number) => ({
  selector: { matchLabels: Object.fromEntries(Array.from({ length: count }, (_, i) => [`l${i}`, "x"])) },
});
const foreign = { name: "epp", group: "apps.example.com", kind: "Picker", failureMode: "FailOpen" };
const otherKind = { name: "epp", kind: "Picker", group: "ex.io" };
const olderBody = { selector: { app: "a" }, targetPortNumber: 8000, extensionRef: { name: "epp" } };

export const ACCEPTED_POOLS: readonly Accepted[] = [
  P.accepted("P1 with its defaults", {}, { picker: { ...service, port: undefined } }),
  P.accepted("P3 selector {}", { selector: {} }, { selector: {} }),
  P.accepted(
    "P15 a picker of another kind",
    { extensionRef: { ...foreign, portNumber: 50_051 } },
    { picker: { ...foreign, port: 50_051 } },
  ),
  //
  P.accepted("P17 a label key nobody can have", { selector: { "example~": "x" } }, { selector: { "example~": "x" } }),
  P.accepted("P20 an empty label value", { selector: { app: "" } }, { selector: { app: "" } }),
  P.accepted(
    "P23 targetPorts, dropped",
    { targetPorts: [{ number: 1 }] },
    { targetPorts: [8000] },
    { targetPorts: undefined },
    says('unknown field "spec.targetPorts"', "spec.targetPorts: unknown key `targetPorts`; v1alpha2 has one"),
  ),
  { id: "P24 no spec", object: P.object(), stored: undefined, parsed: undefined },
  V.accepted("V1 with its defaults", {}, { appProtocol: "http", picker: { ...service, port: 9002 } }),
  V.accepted(
    "V3 another kind without port",
    { endpointPickerRef: otherKind },
    { picker: { ...otherKind, port: undefined, failureMode: "FailClose" } },
    { endpointPickerRef: { ...otherKind, failureMode: "FailClose" } },
  ),
  V.accepted("V4 no endpointPickerRef", { endpointPickerRef: undefined }, { picker: undefined }),
  V.accepted("V6 two ports", ports(2), { targetPorts: [8000, 8001] }),
  V.accepted("V8 eight ports", ports(8), {}),
  V.accepted("V12 64 labels", matchLabels(64), {}),
  V.accepted("V13 h2c", { appProtocol: "kubernetes.io/h2c" }, { appProtocol: "kubernetes.io/h2c" }),
];

export const REFUSED_POOLS: readonly Refused[] = [
  P.refused("P2", { selector: undefined }, "spec.selector: Required value", "spec.selector: is missing"),
  P.refused(
    "P4",
    { targetPortNumber: 0 },
    "should be greater than or equal to 1",
    "spec.targetPortNumber: must be at least 1, got 0",
  ),
  P.refused(
    "P5",
    { targetPortNumber: 65_536 },
    "should be less than or equal to 65535",
    "spec.targetPortNumber: must be at most 65535, got 65536",
  ),
  P.refused(
    "P6",
    { targetPortNumber: "8000" },
    "must be of type integer",
    'expected a whole number, got the string "8000"; remove the quotes',
  ),
  P.refused("P7", { extensionRef: undefined }, "spec.extensionRef: Required value", "spec.extensionRef: is missing"),
  P.refused("P8", { extensionRef: {} }, "spec.extensionRef.name: Required value", "spec.extensionRef.name: is missing"),
  P.refused("P9", extension({ name: "" }), "at least 1 chars long", "spec.extensionRef.name: must not be empty"),
  P.refused(
    "P10",
    extension({ name: "n".repeat(254) }),
    ["Too long", "253"],
    "name: must have at most 253 characters, has 254",
  ),
  P.refused(
    "P11",
    extension({ failureMode: "failClose" }),
    'Unsupported value: "failClose": supported values: "FailOpen", "FailClose"',
    'failureMode: expected one of `FailOpen`, `FailClose`, got the string "failClose"; did you mean `FailClose`?',
  ),
  P.refused(
    "P12",
    extension({ kind: "My/Kind" }),
    ["spec.extensionRef.kind", "should match"],
    "kind: must be letters, digits and hyphens that begin with a letter",
  ),
  P.refused("P13", extension({ kind: "" }), "at least 1 chars long", "spec.extensionRef.kind: must not be empty"),
  P.refused(
    "P14",
    extension({ group: "example.com/bar" }),
    ["spec.extensionRef.group", "should match"],
    'group: must be "" for the core group or a lower-case DNS',
  ),
  P.refused(
    "P16",
    extension({ portNumber: 70_000 }),
    "should be less than or equal to 65535",
    "portNumber: must be at most 65535, got 70000",
  ),
  P.refused(
    "P18",
    { selector: { app: "-bad" } },
    ["spec.selector.app", "should match"],
    "spec.selector.app: must be letters, digits, hyphens",
  ),
  P.refused(
    "P19",
    { selector: { app: "v".repeat(64) } },
    ["Too long", "63"],
    "spec.selector.app: must have at most 63 characters, has 64",
  ),
  P.refused(
    "P21",
    { selector: { n: 1 } },
    "must be of type string",
    "spec.selector.n: expected a string, got 1; put it in quotes",
  ),
  P.refused(
    "P22",
    { selector: { matchLabels: { app: "a" } } },
    ["spec.selector.matchLabels", "must be of type string"],
    "selector.matchLabels: expected a string, got a mapping; v1alpha2 takes the labels directly",
  ),
  V.refused(
    "V2",
    { endpointPickerRef: { name: "epp" } },
    "port is required when kind is 'Service' or unspecified (defaults to 'Service')",
    "spec.endpointPickerRef: port is required when kind is 'Service' or unspecified (defaults to 'Service')",
  ),
  V.refused(
    "V5",
    { targetPorts: [] },
    "should have at least 1 items",
    "spec.targetPorts: must have at least 1 entries, has 0",
  ),
  V.refused(
    "V7",
    { targetPorts: [{ number: 8000 }, { number: 8000 }] },
    "port number must be unique",
    "spec.targetPorts: port number must be unique (8000 is listed again)",
  ),
  V.refused("V8", ports(9), "must have at most 8 items", "spec.targetPorts: must have at most 8 entries, has 9"),
  V.refused(
    "V9",
    { targetPorts: [{ number: 0 }] },
    "should be greater than or equal to 1",
    "spec.targetPorts[0].number: must be at least 1, got 0",
  ),
  V.refused(
    "V9",
    { targetPorts: [{}] },
    "spec.targetPorts[0].number: Required value",
    "spec.targetPorts[0].number: is missing",
  ),
  V.refused(
    "V9",
    { targetPorts: [8000] },
    "must be of type object",
    "targetPorts[0]: expected a mapping, got 8000; write for example `{number",
  ),
  V.refused(
    "V10",
    matchLabels(0),
    "should have at least 1 properties",
    "spec.selector.matchLabels: must have at least 1 label",
  ),
  V.refused(
    "V11",
    { selector: {} },
    "spec.selector.matchLabels: Required value",
    "spec.selector.matchLabels: is missing",
  ),
  V.refused(
    "V11",
    { selector: { app: "a" } },
    "spec.selector.matchLabels: Required value",
    "spec.selector.matchLabels: is missing",
  ),
  V.refused("V12", matchLabels(65), "at most 64", "spec.selector.matchLabels: must have at most 64 labels, has 65"),
  V.refused(
    "V14",
    { appProtocol: "h2c" },
    'Unsupported value: "h2c": supported values: "http", "kubernetes.io/h2c"',
    "spec.appProtocol: expected one of `http`, `kubernetes.io/h2c`",
  ),
  V.refused(
    "V15",
    picker({ port: 9002 }),
    "must be of type object",
    "port: expected a mapping, got 9002; write `port: {number: 9002}`",
  ),
  V.refused("V16", picker({ kind: "" }), "at least 1 chars long", "spec.endpointPickerRef.kind: must not be empty"),
  { id: "V17", object: V.object(), says: says("spec: Required value", "spec: is missing") },
  { id: "V17 as null", object: V.object(null), says: says("spec: Required value", "spec: is missing") },
  {
    id: "V18",
    object: V.object(olderBody),
    says: says("spec.targetPorts: Required value", "spec.targetPorts: is missing; the ports of the model servers"),
  },
];
