/** Where the reservations of a quota are counted, for all processes together. */
export interface QuotaStore {
  /**
   * Takes one place of the quota `key` under the name `member`.
   * @returns false = the quota is used up, and nothing was taken
   * @throws when the store cannot be asked; the place may have been taken all the same
   */
  reserve(key: string, member: string): Promise<boolean>;
  /** Says that these places are still in use. @throws when the store cannot be told */
  renew(key: string, members: readonly string[]): Promise<void>;
  /** Gives places back; those that are gone already are nothing. @throws when the store cannot be told */
  giveBack(key: string, members: readonly string[]): Promise<void>;
  close(): void;
}
