import { z } from "zod";
import { exactlyOne, labelsField, modelsField, portField } from "./endpoint-fields.ts";
import { expandHosts } from "./host-list.ts";

/** The most model servers of one host. */
const MAX_SERVERS = 256;

/** The section `slurm`: the hosts of a job, or of any host list, with the same ports on each. */
export const slurmSettings = z
  .strictObject({
    hosts: z
      .string()
      .superRefine((text, context) => {
        const list = expandHosts(text);
        if ("problem" in list)
          context.addIssue({ code: "custom", message: `${list.problem} (character ${list.at + 1})` });
      })
      .optional()
      .describe("A host list, such as gpu[01-03,07],login1."),
    env: z
      .string()
      .regex(/^[A-Za-z_]\w*$/, "must be the name of an environment variable, such as SLURM_JOB_NODELIST")
      .optional()
      .describe("The environment variable with the host list, such as SLURM_JOB_NODELIST."),
    file: z
      .string()
      .min(1)
      .optional()
      .describe("A file with the host list, watched for changes. Text after # is a comment."),
    port: portField.optional().describe("The port of the first model server of each host."),
    servers: z
      .int()
      .min(1)
      .max(MAX_SERVERS)
      .optional()
      .describe("The number of model servers of each host; default 1."),
    stride: z.int().min(1).max(65535).optional().describe("The step from port to port; default 1."),
    ports: z.array(portField).min(1).max(MAX_SERVERS).optional().describe("All ports of each host, in place of port."),
    labels: labelsField,
    models: modelsField,
  })
  .superRefine(exactlyOne(["hosts", "env", "file"]))
  .superRefine(exactlyOne(["port", "ports"]))
  .superRefine(({ port, ports, servers, stride }, context) => {
    for (const [key, value] of Object.entries({ servers, stride }))
      if (ports !== undefined && value !== undefined)
        context.addIssue({ code: "custom", path: [key], message: "goes only with `port`; `ports` names every port" });
    if (stride !== undefined && servers === undefined)
      context.addIssue({ code: "custom", path: ["stride"], message: "needs `servers`, the number of ports" });
    const last = (port ?? 1) + ((servers ?? 1) - 1) * (stride ?? 1);
    if (last > 65535)
      context.addIssue({ code: "custom", path: ["servers"], message: `the last port would be ${last}, above 65535` });
    if (ports !== undefined && new Set(ports).size < ports.length)
      context.addIssue({ code: "custom", path: ["ports"], message: "names a port twice" });
  })
  .transform(({ hosts, env, file, port = 1, servers = 1, stride = 1, ports, labels, models }) => ({
    ...{ hosts, env, file, labels, models },
    ports: ports ?? Array.from({ length: servers }, (_, i) => port + i * stride),
  }));

/** One of `hosts`, `env` and `file` is given. */
export type SlurmSettings = z.output<typeof slurmSettings>;
