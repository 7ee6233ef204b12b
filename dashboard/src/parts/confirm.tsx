import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Asks before an order that nobody can take back. Escape is a no, and the first button, which has the focus, too. */
export function Confirm(props: {
  readonly title: string;
  /** Of the button that gives the order. */
  readonly order: string;
  readonly keep: string;
  readonly onOrder: () => void;
  /** The question is answered, either way. */
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  const close = (): void => box.current?.close();
  return (
    <dialog class="confirm" ref={box} aria-labelledby="confirm-title" onClose={props.onClose}>
      <h2 id="confirm-title">{props.title}</h2>
      {props.children}
      <div class="answers">
        <button type="button" class="button" onClick={close}>
          {props.keep}
        </button>
        <button
          type="button"
          class="button danger"
          onClick={() => {
            props.onOrder();
            close();
          }}
        >
          {props.order}
        </button>
      </div>
    </dialog>
  );
}
