import { z } from "zod";

const text = z.string();

/** What of a kubeconfig is read; other keys are for other programs. Missing sections are empty. */
const NAMED = { name: text.min(1) };

export const CLUSTER = z.object({
  server: text.min(1),
  "certificate-authority": text.optional(),
  "certificate-authority-data": text.optional(),
  "insecure-skip-tls-verify": z.boolean().optional(),
  "tls-server-name": text.optional(),
  "proxy-url": text.optional(),
});

const EXEC = z.object({
  apiVersion: z.enum(["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"]),
  command: text.min(1),
  args: z.array(text).nullish(),
  env: z.array(z.object({ name: text.min(1), value: text })).nullish(),
  installHint: text.optional(),
  provideClusterInfo: z.boolean().optional(),
  interactiveMode: z.enum(["Never", "IfAvailable", "Always"]).optional(),
});

export const USER = z.object({
  // Of secrets only whether they are there is checked: what is wrong with one would be quoted.
  token: z.unknown().optional(),
  tokenFile: text.optional(),
  "client-certificate": text.optional(),
  "client-certificate-data": text.optional(),
  "client-key": text.optional(),
  "client-key-data": z.unknown().optional(),
  username: z.unknown().optional(),
  password: z.unknown().optional(),
  as: z.unknown().optional(),
  "auth-provider": z.unknown().optional(),
  exec: EXEC.optional(),
});

const CONTEXT = z.object({ cluster: text.min(1), user: text, namespace: text.optional() });

export const KUBECONFIG = z.object({
  "current-context": text.nullish(),
  contexts: z.array(z.object({ ...NAMED, context: CONTEXT })).nullish(),
  clusters: z.array(z.object({ ...NAMED, cluster: z.unknown() })).nullish(),
  users: z.array(z.object({ ...NAMED, user: z.unknown() })).nullish(),
});
