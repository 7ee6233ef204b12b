import { GROUP, type InferencePool } from "../../../src/pool/resources/objects.ts";
import type { BootstrapOptions } from "../../../src/wires/envoy/options.ts";

/** A v1 pool whose picker is the Service `llm-epp`, port 9002. */
export const POOL: InferencePool = {
  kind: "InferencePool",
  group: GROUP.stable,
  meta: {
    name: "llm",
    namespace: "prod",
    uid: "",
    creationTimestamp: 0,
    generation: 0,
    deleting: false,
    labels: {},
    annotations: {},
  },
  selector: { app: "vllm" },
  targetPorts: [8000],
  appProtocol: "http",
  picker: { group: "", kind: "Service", name: "llm-epp", port: 9002, failureMode: "FailClose" },
};

/** What `sluice envoy-config` asks for when nothing but the folder is given. */
export const OPTIONS: BootstrapOptions = {
  pool: POOL,
  variant: "standalone",
  envoyVersion: "1.40",
  listen: { host: "127.0.0.1", port: 8081 },
  admin: { host: "127.0.0.1", port: 19000 },
  picker: undefined,
  tls: undefined,
  failureMode: undefined,
  requestBodyMode: undefined,
  endpoints: [],
  subset: [],
  subsetHeader: "",
  command: "sluice envoy-config",
};

/** The same with known servers, for the variant that needs them. */
export const KNOWN_SERVERS: BootstrapOptions = {
  ...OPTIONS,
  variant: "override-host",
  endpoints: [
    { host: "10.0.0.1", port: 8000 },
    { host: "fd00::1", port: 8000 },
  ],
};
