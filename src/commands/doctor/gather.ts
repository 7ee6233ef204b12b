import { realClock } from "../../base/clock/real.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { VERSION } from "../../base/process/version.ts";
import { askServers } from "../../lab/check/ask-servers.ts";
import type { ServerFacts } from "../../lab/check/server-facts.ts";
import { type AdminAccess, adminOrigin } from "../common/admin-client.ts";
import type { EndpointFacts, InstallationFacts, RunningFacts } from "./facts.ts";
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
  const plan = settings.askServers && typeof running !== "string" ? questionsFor(running, read?.serverTls) : undefined;
  return {
    now: realClock.wall(),
    cli: VERSION,
    admin,
    running,
    servers: plan?.servers && (await serversOf(plan.servers, plan.tls, timeout)),
    unasked: plan?.unasked,
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

/** Which servers are asked, and how; or why none is. */
interface Questions {
  readonly servers?: readonly EndpointFacts[];
  readonly tls?: ServerTls;
  readonly unasked?: InstallationFacts["unasked"];
}

/** @param tls of the gateway.yaml; a text = it cannot be known; undefined = no file is given */
function questionsFor({ endpoints }: RunningFacts, tls: ServerTls | string | undefined): Questions {
  if (typeof tls === "object") return { servers: endpoints, tls };
  const secure = endpoints.some(({ scheme }) => scheme === "https");
  if (!secure && tls === undefined) return { servers: endpoints };
  return tls === undefined
    ? {
        unasked: {
          because: "the servers speak TLS, and the TLS settings are in gateway.yaml",
          todo: "name gateway.yaml with --config",
        },
      }
    : { unasked: { because: tls, todo: "correct the problem, or run sluice doctor as the user of the gateway" } };
}

async function serversOf(
  endpoints: readonly EndpointFacts[],
  tls: ServerTls | undefined,
  timeout: number,
): Promise<ReadonlyMap<string, ServerFacts>> {
  const byHostPort = new Map(endpoints.map((endpoint) => [endpoint.hostPort, endpoint]));
  const asked = [...byHostPort.values()].slice(0, MAX_ASKED);
  const origins = asked.map((endpoint) => `${tls?.secures(endpoint) ? "https" : "http"}://${endpoint.hostPort}`);
  const found = await askServers(origins, { timeout, tls }, realClock);
  return new Map(asked.map(({ hostPort }, i) => [hostPort, found[i]!]));
}
