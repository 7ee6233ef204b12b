import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clientAuthority } from "../support/certificates.ts";
import { startEnvoy } from "../support/envoy.ts";
import { freePort, onFreePorts } from "../support/free-port.ts";
import { describeScaling } from "../support/scaler/scale-from-zero.cases.ts";
import { startEpp } from "../support/stack.ts";

describeScaling("real Envoy and `sluice epp` with a scaler that speaks TLS", async (endpoints, args) => {
  const { ca, server } = await clientAuthority();
  const directory = mkdtempSync(join(tmpdir(), "sluice-scaler-"));
  writeFileSync(join(directory, "tls.crt"), server.cert);
  writeFileSync(join(directory, "tls.key"), server.key);
  const epp = await onFreePorts(async () => {
    const port = String(await freePort());
    const scaler = ["--scaler-port", port, "--scaler-cert-dir", directory, "--drain-timeout=0s"];
    return startEpp(endpoints, 0, [...args, ...scaler]);
  });
  const envoy = await startEnvoy({ variant: "standalone", eppPort: epp.port, serverPorts: [] });
  await envoy.findsPickers();
  return {
    ...{ url: `http://127.0.0.1:${envoy.port}`, adminUrl: epp.adminUrl, scalerCa: ca },
    scalerAddress: await epp.process.listening("scaler"),
    terminate: () => epp.process.child.kill("SIGTERM"),
    stop: () => Promise.all([envoy.process.stop(), epp.process.stop()]),
  };
});
