import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Clock } from "../clock/clock.ts";
import type { Logger } from "../telemetry/logger.ts";

/**
 * The address of a client whose socket may be closed. The accepted socket still knows it then. Node does not document where a
 * TLS socket keeps its accepted socket, so the address may be missing ("") in another version of Node.
 */
export function addressOf(socket: TLSSocket): string {
  const { _parent: accepted } = socket as { _parent?: Socket | null };
  return socket.remoteAddress ?? accepted?.remoteAddress ?? "";
}

/** Why a handshake failed, in OpenSSL's words, if the client's certificate is the cause. */
export function certificateProblem(error: NodeJS.ErrnoException, socket: TLSSocket): string | undefined {
  if (error.code === "ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE") return "the client sent no certificate";
  const problem: unknown = socket.authorizationError;
  return problem == null ? undefined : `its certificate is not accepted: ${String(problem)}`;
}

/** Milliseconds before the same reason is logged again. */
const REFUSED_AGAIN = 60_000;

/**
 * Logs why a port refuses clients: each reason once a minute. OpenSSL has some eighty reasons.
 * @param port as people call it, such as "ext_proc port"
 */
export function refusedClientLog(port: string, clock: Clock, log: Logger): (problem: string, address: string) => void {
  const toldAt = new Map<string, number>();
  return (problem, address) => {
    const now = clock.now();
    if (now - (toldAt.get(problem) ?? Number.NEGATIVE_INFINITY) < REFUSED_AGAIN) return;
    toldAt.set(problem, now);
    log.warn({ address }, `a client of the ${port} was refused: ${problem}`);
  };
}
