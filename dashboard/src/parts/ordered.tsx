import type { ComponentChildren } from "preact";

/** The last order to cancel something, and why the process refused it; undefined = it did not. */
export interface CancelOrder {
  readonly id: string;
  readonly problem?: string;
}

/** Says what became of an order. @param children the rest of the sentence after the ID, if it is cancelled */
export function Ordered({ id, problem, children }: CancelOrder & { readonly children: ComponentChildren }) {
  return problem === undefined ? (
    <p class="inside" role="status">
      <code>{id}</code> {children}
    </p>
  ) : (
    <p class="inside bad" role="alert">
      <code>{id}</code> is not cancelled: {problem}
    </p>
  );
}
