/* The rival of bench/mpi.R: MPI_Allreduce() into memory that is used again, or into new memory each time. */

#include <mpi.h>
#include <stdlib.h>

void plain_all_reduce(int *length, int *times, int *is_new, double *seconds) {
  static float *from, *to;
  static int have;
  if (have < *length) {
    from = realloc(from, sizeof(float) * *length);
    to = realloc(to, sizeof(float) * *length);
    have = *length;
    for (int i = 0; i < have; i++) from[i] = to[i] = 1;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < *times; i++) {
    float *into = *is_new ? malloc(sizeof(float) * *length) : to;
    MPI_Allreduce(from, into, *length, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (*is_new) free(into);
  }
  *seconds = (MPI_Wtime() - start) / *times;
}
