import type { Caller } from "../../base/inference/caller.ts";

/** A service that the gateway itself offers beside the model servers. */
export interface LocalService {
  /** Whether requests to a path are the service's. @param path without query */
  claims(path: string): boolean;
  /** Answers a request whose client is known. Never rejects. @param caller undefined = clients need no key */
  answer(request: Request, caller: Caller | undefined): Promise<Response>;
}
