enum PageFormatPlaceholder {}
