import { points } from "./points.ts";

/** The total of one candidate: a part for each scorer. @param most the total of a full bar */
export function StackedBar({
  parts,
  most,
}: {
  parts: readonly { readonly name: string; readonly points: number }[];
  most: number;
}) {
  return (
    <span class="stack" aria-hidden="true">
      {parts.map(({ name, points: share }, at) => (
        <i
          key={name}
          class={`c${at % 8}`}
          style={{ width: `${most > 0 ? (share / most) * 100 : 0}%` }}
          title={`${name}: ${points(share)}`}
        />
      ))}
    </span>
  );
}
