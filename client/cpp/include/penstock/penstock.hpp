#pragma once

// All of the client library.
#include <penstock/client.hpp>
#include <penstock/client_options.hpp>
#include <penstock/float16.hpp>
#include <penstock/lent_memory.hpp>
#include <penstock/pipeline_info.hpp>
#include <penstock/request_error.hpp>
#include <penstock/result.hpp>
#include <penstock/sample_account.hpp>
#include <penstock/session.hpp>
#include <penstock/subscription.hpp>
