import { hostPort } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { ListenAddress } from "../../base/inference/listen-address.ts";

/**
 * Refuses addresses at which everybody could send requests.
 * @param listeners where clients connect, without those that demand a client certificate
 * @param keyed whether clients need a key or a token
 * @param open whether the operator wants the door open (`--open`)
 * @throws SluiceError KEYS_MISSING, FLAG_CONFLICT
 */
export function checkDoor(listeners: readonly ListenAddress[], keyed: boolean, open: boolean): void {
  if (keyed && open)
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--open (keys.open) lets clients in without a key, but the gateway has keys or issuers of tokens; remove --open, or the keys and issuers",
    );
  if (keyed || open) return;
  const exposed = listeners.find(({ host }) => !isLoopbackHost(host));
  if (exposed === undefined) return;
  const where = hostPort(exposed.host, exposed.port);
  throw new SluiceError(
    "KEYS_MISSING",
    `${where} is open to other machines, and the gateway has no keys; give --keys FILE (sluice keys add makes the file), or --open to let every client send requests`,
  );
}

/** Whether only programs of this machine reach a host. A name other than localhost may mean any address. */
function isLoopbackHost(host: string): boolean {
  const plain = host.startsWith("::ffff:") ? host.slice("::ffff:".length) : host;
  return plain === "localhost" || plain === "::1" || /^127(\.\d{1,3}){3}$/.test(plain);
}
