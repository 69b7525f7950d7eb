/* SPDX-License-Identifier: MIT */
/* docs/problems.md inside the program, so that the page which an answer's type names is there
 * without a network. Constant data; any thread. */
#ifndef PRAZO_GATEWAY_PROBLEMS_DOC_H
#define PRAZO_GATEWAY_PROBLEMS_DOC_H

#include "base/str.h"

/* The section "## <name>" with its heading, up to the next one. base NULL: there is none. */
struct prazo_str prazo_problems_doc_section(struct prazo_str name);

#endif
