import { realClock } from "../../base/clock/real.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { VERSION } from "../../base/process/version.ts";
import { askServers } from "../../lab/check/ask-servers.ts";
import type { ServerFacts } from "../../lab/check/server-facts.ts";
import { type AdminAccess, adminOrigin } from "../common/admin-client.ts";
import type { InstallationFacts, RunningFacts } from "./facts.ts";
import { fileFacts } from "./file-facts.ts";
import { runningFacts } from "./running-facts.ts";

/** The flags of `sluice doctor`. */
export interface DoctorSettings extends Partial<Omit<AdminAccess, "admin">> {
  readonly admin?: string;
  /** A gateway.yaml. */
  readonly config?: string;
  /** Milliseconds for each question to a server. */
  readonly timeout: number;
  readonly askServers: boolean;
}

const USUAL_ADMIN = "127.0.0.1:19001";
/** The most servers that are asked. */
const MAX_ASKED = 256;

/**
 * Asks the process, its servers and Redis, and reads the files. What does not answer is a fact, no error.
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT, DOCUMENT_... for a file of a flag
 */
export async function gather(settings: DoctorSettings): Promise<InstallationFacts> {
  const { config, timeout } = settings;
  const read = config === undefined ? undefined : await fileFacts(config, timeout, realClock);
  const admin = adminOrigin(settings.admin ?? read?.admin ?? USUAL_ADMIN);
  const { caCert, cert, key, tokenFile } = settings;
  const running = await asked(runningFacts({ admin, caCert, cert, key, tokenFile }));
  const isAsked = settings.askServers && typeof running !== "string" && read?.serversHaveTls !== true;
  return {
    now: realClock.wall(),
    cli: VERSION,
    admin,
    running,
    servers: isAsked ? await serversOf(running, timeout) : undefined,
    file: read?.facts,
  };
}

async function asked(question: Promise<RunningFacts>): Promise<RunningFacts | string> {
  try {
    return await question;
  } catch (error) {
    const isFact = error instanceof SluiceError && error.code.startsWith("ADMIN_");
    if (isFact) return messageOf(error);
    throw error;
  }
}

async function serversOf({ endpoints }: RunningFacts, timeout: number): Promise<ReadonlyMap<string, ServerFacts>> {
  const hostPorts = [...new Set(endpoints.map(({ hostPort }) => hostPort))].slice(0, MAX_ASKED);
  const found = await askServers(
    hostPorts.map((hostPort) => `http://${hostPort}`),
    { timeout },
    realClock,
  );
  return new Map(hostPorts.map((hostPort, i) => [hostPort, found[i]!]));
}
