// What browsers have and the checker's library does not know yet.

interface HTMLElement {
  popover: string | null;
  showPopover(): void;
  hidePopover(): void;
}
