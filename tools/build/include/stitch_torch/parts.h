// Which parts of the facade a file needs. Parsing the standard library is most of what a build costs, so the builder
// looks at the words of a candidate and names the parts (STITCH_LEAN with STITCH_PART_*); without that, all are there.
#pragma once

#ifndef STITCH_LEAN
#define STITCH_PART_STD 1
#define STITCH_PART_STRING 1
#define STITCH_PART_HALF 1
#define STITCH_PART_BINDING 1
#endif
#ifdef STITCH_PART_STD
#define STITCH_PART_STRING 1
#endif
