/** A small line without axes; the numbers beside it say the same. @param top of the scale, at least */
export function Spark({ values, label, top = 1 }: { values: readonly (number | null)[]; label: string; top?: number }) {
  const known = values.filter((value) => value !== null);
  const most = Math.max(top, ...known);
  const step = 100 / Math.max(1, values.length - 1);
  let path = "";
  let isOpen = false;
  values.forEach((value, at) => {
    if (value === null) isOpen = false;
    else {
      path += `${isOpen ? "L" : "M"}${(at * step).toFixed(1)} ${(19 - (value / most) * 18).toFixed(1)}`;
      isOpen = true;
    }
  });
  return (
    <svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={path} />
    </svg>
  );
}
