/*
 * scenario.h
 *		The scenarios that are simulated.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_SCENARIO_H
#define RATESIM_SCENARIO_H

#include "report.h"

/* (a) the timeline of the AIMD specification */
void		scenario_timeline(struct report *report);

/* (b) the tuning rounds behind the presets */
void		scenario_presets(struct report *report);

/* (c) an hour of saturated load; recovery; the policies compared */
void		scenario_hour(struct report *report);
void		scenario_recovery(struct report *report);
void		scenario_policies(struct report *report);

/* (d) backends that share a user, (e) machines that share a user */
void		scenario_backends(struct report *report);
void		scenario_machines(struct report *report);

/* (j) short requests beside loads */
void		scenario_short(struct report *report);

/* (f) rules that the founding documents leave open, (g) a slow table beside a fast one */
void		scenario_readings(struct report *report);
void		scenario_lone_refusal(struct report *report);
void		scenario_tables(struct report *report);

/* (h) a start with the whole limit or with half of it */
void		scenario_start(struct report *report);

/* (i) a service with a capacity, and the published yardsticks */
void		scenario_saturation(struct report *report);
void		scenario_changes(struct report *report);
void		scenario_yardsticks(struct report *report);

#endif
