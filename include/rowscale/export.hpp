// ROWSCALE_API marks what the shared library exports; everything else is hidden.
#pragma once

#if defined(_WIN32)
#error "rowscale supports Linux"
#endif
#define ROWSCALE_API __attribute__((visibility("default")))
