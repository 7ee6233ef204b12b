import { startEnvoy } from "../support/envoy.ts";
import { describeWaiting } from "../support/flowcontrol/waiting.cases.ts";
import { startEpp } from "../support/stack.ts";

describeWaiting(
  "real Envoy and `sluice epp`",
  async (endpoints, args) => {
    const epp = await startEpp(endpoints, 0, args);
    const envoy = await startEnvoy({ variant: "standalone", eppPort: epp.port, serverPorts: [] });
    await envoy.findsPickers();
    return {
      url: `http://127.0.0.1:${envoy.port}`,
      adminUrl: epp.adminUrl,
      picker: epp.process,
      stop: () => Promise.all([envoy.process.stop(), epp.process.stop()]),
    };
  },
  ["--drain-timeout=0s"],
);
