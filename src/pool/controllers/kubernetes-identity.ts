import { SluiceError } from "../../base/inference/errors.ts";

/**
 * What goes for the name of the pool where a selector takes its place: that of the Deployment, cut out of the pod's name
 * (api-resources 3.1).
 * @throws SluiceError POD_NAME
 */
export function deploymentName(env: Readonly<Record<string, string | undefined>>): string {
  const pod = env["POD_NAME"] ?? "";
  const found = /^(.+)-[a-z0-9]+-[a-z0-9]+$/.exec(pod)?.[1];
  if (found !== undefined) return found;
  const problem =
    pod === ""
      ? "is not set; set it from metadata.name of the pod"
      : `is ${JSON.stringify(pod.slice(0, 100))} and not of the form NAME-HASH-HASH`;
  throw new SluiceError(
    "POD_NAME",
    `--endpoint-selector takes the name of the Deployment out of the environment variable POD_NAME, which ${problem}`,
  );
}
