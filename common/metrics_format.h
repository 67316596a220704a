// The report's figures as Prometheus reads them: its text format 0.0.4, for the textfile collector
// of node_exporter. Pure.
//
// Counters begin at 0 with the process. Every sample has the labels process, rank, ranks and
// communicator, and slurm_job_id in a job of Slurm; those of a recurring call also slot, its number
// in the communicator, call and codec.
#pragma once

#include <string>
#include <vector>

#include "common/stats_format.h"

namespace cinch {

// Figures that are not finite, and ratios and errors that nothing was measured of, are left out.
std::string formatMetrics(const std::vector<CommFigures>& comms, const ReportOrigin& origin);

}  // namespace cinch
