import type { HeaderList } from "../../base/inference/headers.ts";
import { BodyAccount, type BudgetHolder, clientAddressOf } from "./body-account.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { BodyAssembler } from "./request-body.ts";
import type { Wire } from "./wire.ts";

type AddressedWire = Pick<Wire, "clientAddress">;

/** The bytes that one exchange holds, counted in the byte budget: its request body, and later an answer that it keeps. */
export class HeldBytes {
  readonly #budget: ByteBudget;
  readonly #holder: BudgetHolder;
  readonly #body = new BodyAssembler();
  /** Bytes that the headers announce for the body; 0 = unknown. */
  #declared = 0;
  #account: BodyAccount | undefined;

  constructor(budget: ByteBudget, holder: BudgetHolder) {
    this.#budget = budget;
    this.#holder = holder;
  }

  /** Bytes of the body so far. */
  get length(): number {
    return this.#body.length;
  }

  /** The headers announce a body of so many bytes, above 0. */
  expect(bytes: number): void {
    this.#declared = bytes;
    this.#body.expect(bytes);
  }

  /**
   * Takes a piece of the body, which may pause the exchange.
   * @param wire knows the client's address, perhaps
   * @returns the whole body with its last piece
   */
  add(chunk: Uint8Array, end: boolean, headers: HeaderList, wire: AddressedWire): Uint8Array | undefined {
    this.#charge(chunk.length, end, headers, wire);
    if (end) return this.#body.finish(chunk);
    if (chunk.length > 0) this.#body.add(chunk);
    return undefined;
  }

  /** Counts bytes of an answer that the exchange keeps. @returns false = the budget has no room for them */
  tryKeep(bytes: number): boolean {
    this.#account ??= new BodyAccount(this.#holder);
    return this.#budget.tryAdd(this.#account, bytes);
  }

  /** Gives back what the exchange has in the budget. */
  release(): void {
    if (this.#account !== undefined) this.#budget.release(this.#account);
  }

  /** Forgets the body, and gives back what the exchange has in the budget. */
  clear(): void {
    this.#body.clear();
    this.release();
  }

  #charge(bytes: number, end: boolean, headers: HeaderList, wire: AddressedWire): void {
    let account = this.#account;
    if (bytes === 0) {
      if (end && account !== undefined) this.#budget.complete(account);
      return;
    }
    // A client that sent the announced length sends no more.
    const last = end || this.#body.length + bytes === this.#declared;
    if (account === undefined) {
      account = new BodyAccount(this.#holder);
      this.#account = account;
      if (!last) {
        account.expected = this.#declared;
        account.address = clientAddressOf(headers, wire.clientAddress?.());
      }
    }
    this.#budget.add(account, bytes, last);
  }
}
