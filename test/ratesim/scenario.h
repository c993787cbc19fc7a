/*
 * scenario.h
 *		The questions that are put to the simulation.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef RATESIM_SCENARIO_H
#define RATESIM_SCENARIO_H

#include "report.h"

/* (a) the founding documents' timeline */
void		scenario_timeline(struct report *report);

/* (b) the tuning rounds behind the presets */
void		scenario_presets(struct report *report);

/* (c) an hour of saturated load; recovery; the policies compared */
void		scenario_hour(struct report *report);
void		scenario_recovery(struct report *report);
void		scenario_policies(struct report *report);

/* (d) backends that share a user, (e) machines that do */
void		scenario_backends(struct report *report);
void		scenario_machines(struct report *report);

#endif
