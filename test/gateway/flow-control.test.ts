import { describeWaiting } from "../support/flowcontrol/waiting.cases.ts";
import { startGateway } from "../support/gateway.ts";

describeWaiting("`sluice gateway`", async (endpoints, args) => {
  const { process, url, adminUrl } = await startGateway(endpoints, args);
  return { url, adminUrl, picker: process, stop: () => process.stop() };
});
