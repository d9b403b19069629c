#include "CPlatform.h"

int cplatform_version(void) { return 1; }
