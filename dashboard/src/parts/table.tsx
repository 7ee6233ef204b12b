import { Component, type ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A column of a table. */
export interface Column<Row> {
  readonly name: string;
  /** Numbers stand on the right. */
  readonly numeric?: boolean;
  /** The head of the row for screen readers. */
  readonly isHead?: boolean;
  readonly title?: string;
  readonly className?: string;
  /** In rem; 0 = what the others leave. Where columns have widths, rows that come and go move no column. */
  readonly width?: number;
  readonly cell: (row: Row) => ComponentChildren;
  /** Rows sort by it when the head is clicked; numbers first from the most down. */
  readonly sort?: (row: Row) => number | string;
}

interface TableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
  readonly rowClass?: (row: Row) => string | undefined;
  /** Stands under a row that is open. */
  readonly below?: (row: Row) => ComponentChildren | undefined;
  readonly empty: ComponentChildren;
  readonly caption?: ComponentChildren;
}

/** Above so many rows, only those in view are in the document. */
const ALL_UP_TO = 80;
const OVERSCAN = 6;

/** A table that sorts by its heads and scrolls by itself. Long tables hold only the rows in view. */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf, rowClass, below, empty, caption } = props;
  const [order, setOrder] = useState<{ name: string; down: boolean } | undefined>(undefined);
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600, row: 32 });
  const isLong = rows.length > ALL_UP_TO;
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || !isLong) return undefined;
    const row = element.querySelector("tbody tr:not(.spacer)")?.getBoundingClientRect().height ?? 32;
    const look = (): void => setView({ top: element.scrollTop, height: element.clientHeight, row });
    look();
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, [isLong]);

  const sorted = sortedRows(rows, columns, order);
  const first = isLong ? Math.max(0, Math.floor(view.top / view.row) - OVERSCAN) : 0;
  const last = isLong
    ? Math.min(sorted.length, Math.ceil((view.top + view.height) / view.row) + OVERSCAN)
    : sorted.length;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard only when it takes the focus
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for the fields of a form
    <div class={isLong ? "scroll tall" : "scroll"} ref={box} role="group" aria-label={label} tabIndex={0}>
      <table
        class={columns[0]?.width === undefined ? undefined : "fixed"}
        aria-rowcount={isLong ? rows.length + 1 : undefined}
      >
        {caption !== undefined && <caption>{caption}</caption>}
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.name} column={column} order={order} onOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.length === 0 && (
            <tr>
              <td colSpan={columns.length} class="wrap">
                {empty}
              </td>
            </tr>
          )}
          {first > 0 && <Spacer key="above" height={first * view.row} />}
          {sorted.slice(first, last).map((row, at) => {
            const more = below?.(row);
            return [
              <tr key={keyOf(row)} class={rowClass?.(row)} aria-rowindex={isLong ? first + at + 2 : undefined}>
                <Cells row={row} columns={columns} />
              </tr>,
              more !== undefined && (
                <tr key={`${keyOf(row)} below`} class="below">
                  <td colSpan={columns.length}>{more}</td>
                </tr>
              ),
            ];
          })}
          {last < sorted.length && <Spacer key="beneath" height={(sorted.length - last) * view.row} />}
        </tbody>
      </table>
      {isLong && (
        <p class="note on-paper">
          The rows that were in view: {last - first} of {rows.length}.
        </p>
      )}
    </div>
  );
}

/** The classes of the cells of a column. */
function kindOf<Row>({ numeric, className = "" }: Column<Row>): string | undefined {
  return `${numeric === true ? "n " : ""}${className}`.trim() || undefined;
}

interface CellsProps<Row> {
  readonly row: Row;
  readonly columns: readonly Column<Row>[];
}

/** The cells of a row. Those of the same object in the same columns are not drawn again. */
class Cells<Row> extends Component<CellsProps<Row>> {
  override shouldComponentUpdate({ row, columns }: CellsProps<Row>): boolean {
    return row !== this.props.row || columns !== this.props.columns;
  }

  override render({ row, columns }: CellsProps<Row>) {
    return columns.map((column) => {
      const { name, isHead, cell } = column;
      const kind = kindOf(column);
      return isHead === true ? (
        <th key={name} scope="row" class={kind}>
          {cell(row)}
        </th>
      ) : (
        <td key={name} class={kind}>
          {cell(row)}
        </td>
      );
    });
  }
}

function Spacer({ height }: { height: number }) {
  return (
    <tr class="spacer">
      <td style={{ height: `${height}px` }} />
    </tr>
  );
}

interface HeadProps<Row> {
  readonly column: Column<Row>;
  readonly order: { readonly name: string; readonly down: boolean } | undefined;
  readonly onOrder: (order: { name: string; down: boolean } | undefined) => void;
}

function Head<Row>({ column, order, onOrder }: HeadProps<Row>) {
  const { name, numeric, title, sort, width = 0 } = column;
  const kind = kindOf(column);
  const style = width > 0 ? { width: `${width}rem` } : undefined;
  if (sort === undefined)
    return (
      <th scope="col" class={kind} title={title} style={style}>
        {name}
      </th>
    );
  const mine = order?.name === name ? order : undefined;
  const direction = mine === undefined ? "none" : mine.down ? "descending" : "ascending";
  const next = mine === undefined ? { name, down: numeric === true } : { name, down: !mine.down };
  return (
    <th scope="col" class={kind} title={title} aria-sort={direction} style={style}>
      <button type="button" class="sort" onClick={() => onOrder(next)}>
        {name}
        {mine !== undefined && <span aria-hidden="true">{mine.down ? " ↓" : " ↑"}</span>}
      </button>
    </th>
  );
}

/** `server-10` comes after `server-9`. */
const BY_NAME = new Intl.Collator("en", { numeric: true });

/** Sorts a copy; equal rows keep their order. */
export function sortedRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  order: { readonly name: string; readonly down: boolean } | undefined,
): readonly Row[] {
  const by = columns.find(({ name }) => name === order?.name)?.sort;
  if (by === undefined || order === undefined) return rows;
  const sign = order.down ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [x, y] = [by(a), by(b)];
    return sign * (typeof x === "number" && typeof y === "number" ? x - y || 0 : BY_NAME.compare(String(x), String(y)));
  });
}
