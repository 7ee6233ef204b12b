import { startGateway } from "../support/gateway.ts";
import { describeScaling } from "../support/scaler/scale-from-zero.cases.ts";

describeScaling("`sluice gateway`", async (endpoints, args) => {
  const { process, url, adminUrl } = await startGateway(endpoints, [...args, "--scaler", "127.0.0.1:0"]);
  const scalerAddress = await process.listening("scaler");
  return { url, adminUrl, scalerAddress, terminate: () => process.child.kill("SIGTERM"), stop: () => process.stop() };
});
