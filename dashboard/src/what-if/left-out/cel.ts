/** Stands in for the CEL library: a replay runs no request hook, and only a request hook evaluates CEL. */
export class Environment {
  constructor() {
    throw new Error("the page evaluates no CEL; `sluice explain --replay` does");
  }
}
