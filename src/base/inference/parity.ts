/** The release of the reference that counts where Sluice differs from it on purpose (`--parity`); "" = none. */
export type Parity = "" | "v1.5";
