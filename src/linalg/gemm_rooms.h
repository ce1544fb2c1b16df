/* gemm_rooms.h: the memory that products copy their operands into: a pool of rooms, kept until the process
 * ends. */
#ifndef RS_LINALG_GEMM_ROOMS_H
#define RS_LINALG_GEMM_ROOMS_H

#include <stdbool.h>

/* What a room is for: a thread's own copies, RS_GEMM_ROOM bytes, or what a team shares,
 * RS_GEMM_TEAM_ROOM. */
typedef enum rs_gemm_room { RS_GEMM_OWN, RS_GEMM_SHARED } rs_gemm_room;

/* A room on a boundary of 64 bytes that is nobody else's until it is left by the same thread; NULL: none is free, or there
 * is no memory. */
void *rs_gemm_take_room(rs_gemm_room kind);
void rs_gemm_leave_room(rs_gemm_room kind);

/* Test hook: whether every room of a kind is refused. */
void rs_gemm_refuse_rooms(rs_gemm_room kind, bool refused);

#endif
