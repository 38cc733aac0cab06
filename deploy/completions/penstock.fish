# Completion of `penstock` for fish.

# The pipelines of the daemon that the line names, in the time that somebody waits for a tab.
function __penstock_pipelines
    set -l words (commandline -opc)
    set -l url
    if set -l at (contains -i -- --url $words); and test $at -lt (count $words)
        set url --url $words[(math $at + 1)]
    end
    command penstock $url --timeout 500ms info --json 2>/dev/null |
        sed -n '/^  "pipelines": \[/,/^  \]/ s/^      "name": "\([^"]*\)".*/\1/p'
end

set -l commands bench check-plugin doctor info keygen ping record reload replay send set top trace watch
complete -c penstock -f
complete -c penstock -l url -x -d 'The daemon\'s address'
complete -c penstock -l server-key -x -d 'The daemon\'s public key'
complete -c penstock -l key-file -r -F -d 'Your own key'
complete -c penstock -l transport -x -a 'auto zmq shm' -d 'How large frames travel'
complete -c penstock -l timeout -x -d 'How long to wait'
complete -c penstock -s h -l help -d 'Print a summary'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -l version -d 'Print the version'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a bench -d 'Measure a pipeline'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a info -d 'Show pipelines and counters'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a ping -d 'Measure round trips'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a send -d 'Stream a recording'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a record -d 'Record what a pipeline gets or gives'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a replay -d 'Send a recording again'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a trace -d 'Write a timeline'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a watch -d 'Show the results that others get'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a doctor -d 'Say what is wrong'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a check-plugin -d 'Check a plug-in of your own'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a keygen -d 'Make a key'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a reload -d 'Have the configuration read again'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a set -d 'Set or show tunable numbers'
complete -c penstock -n "not __fish_seen_subcommand_from $commands" -a top -d 'Show what goes on just now'

complete -c penstock -n '__fish_seen_subcommand_from ping' -s n -l count -x -d 'Round trips to measure'
complete -c penstock -n '__fish_seen_subcommand_from ping' -s q -l quiet -d 'Print nothing'
complete -c penstock -n '__fish_seen_subcommand_from info doctor' -l json -d 'Everything as JSON'

complete -c penstock -n '__fish_seen_subcommand_from send replay' -F
complete -c penstock -n '__fish_seen_subcommand_from send replay bench' -s p -l pipeline -x -a '(__penstock_pipelines)' -d 'Which pipeline'
complete -c penstock -n '__fish_seen_subcommand_from send replay bench' -l in-flight -x -d 'Requests under way at once'
complete -c penstock -n '__fish_seen_subcommand_from send replay' -s o -l out -r -F -d 'Folder for the outputs'
complete -c penstock -n '__fish_seen_subcommand_from send replay' -l view -d 'Draw each output'
complete -c penstock -n '__fish_seen_subcommand_from send replay' -s k -l frames-per-request -x -d 'Frames that travel together'
complete -c penstock -n '__fish_seen_subcommand_from send' -l session -d 'Through a session'
complete -c penstock -n '__fish_seen_subcommand_from send' -l channel -x -d 'Of a sound file'
complete -c penstock -n '__fish_seen_subcommand_from send replay' -l format -x -a 'npy raw csv jsonl' -d 'Of what is written'
complete -c penstock -n '__fish_seen_subcommand_from send replay' -l output -x -d 'This output alone'
complete -c penstock -n '__fish_seen_subcommand_from send replay' -l force -d 'Replace results'
complete -c penstock -n '__fish_seen_subcommand_from send' -l raw -d 'Take the bytes for samples'
complete -c penstock -n '__fish_seen_subcommand_from send' -l flush -x -d 'How long samples wait'
complete -c penstock -n '__fish_seen_subcommand_from send replay' -l color -x -a 'auto always never' -d 'In pictures'
complete -c penstock -n '__fish_seen_subcommand_from send' -l rate -x -d 'Samples a second'
complete -c penstock -n '__fish_seen_subcommand_from send' -l index -x -d 'Of the first sample'
complete -c penstock -n '__fish_seen_subcommand_from send' -l time -x -a 'now' -d 'Of the first sample'

complete -c penstock -n '__fish_seen_subcommand_from bench' -l rate -x -d 'Requests a second'
complete -c penstock -n '__fish_seen_subcommand_from bench' -l size -x -d 'Of a request'
complete -c penstock -n '__fish_seen_subcommand_from bench' -l clients -x -d 'Connections'
complete -c penstock -n '__fish_seen_subcommand_from bench' -l sessions -x -d 'Sessions of each client'
complete -c penstock -n '__fish_seen_subcommand_from bench' -l duration -x -d 'How long to measure'
complete -c penstock -n '__fish_seen_subcommand_from bench' -l warmup -x -d 'How long before that'
complete -c penstock -n '__fish_seen_subcommand_from bench' -l json -r -F -d 'Write the figures'

complete -c penstock -n '__fish_seen_subcommand_from check-plugin' -F
complete -c penstock -n '__fish_seen_subcommand_from check-plugin' -l entry -x -d 'Which operator'
complete -c penstock -n '__fish_seen_subcommand_from check-plugin' -l input -x -d 'The frame of an input'
complete -c penstock -n '__fish_seen_subcommand_from check-plugin' -l values -x -d 'One of its values'
complete -c penstock -n '__fish_seen_subcommand_from check-plugin' -l max-frames -x -d 'The most frames of a batch'

complete -c penstock -n '__fish_seen_subcommand_from trace' -l last -x -d 'How much of the past'
complete -c penstock -n '__fish_seen_subcommand_from trace' -l follow-for -x -d 'Go on recording'
complete -c penstock -n '__fish_seen_subcommand_from trace keygen' -s o -l output -r -F -d 'The file to write'

complete -c penstock -n '__fish_seen_subcommand_from replay' -l session -x -d 'Through a session'
complete -c penstock -n '__fish_seen_subcommand_from replay' -l pace -x -a '1x 10x free' -d 'How fast'
complete -c penstock -n '__fish_seen_subcommand_from replay' -l rate -x -d 'Samples a second'
complete -c penstock -n '__fish_seen_subcommand_from record' -x -a '(__penstock_pipelines)' -d 'Which pipeline'
complete -c penstock -n '__fish_seen_subcommand_from record' -l to -r -F -d 'Folder, or NAME.sigmf-meta'
complete -c penstock -n '__fish_seen_subcommand_from record' -l requests -d 'What clients send'
complete -c penstock -n '__fish_seen_subcommand_from record' -l output -x -d 'This output alone'
complete -c penstock -n '__fish_seen_subcommand_from record' -l session -x -d 'Sessions of such names'
complete -c penstock -n '__fish_seen_subcommand_from record' -l for -x -d 'How long'
complete -c penstock -n '__fish_seen_subcommand_from record' -l max-bytes -x -d 'How much'
complete -c penstock -n '__fish_seen_subcommand_from record' -l rate -x -d 'Samples a second'
complete -c penstock -n '__fish_seen_subcommand_from record' -l force -d 'Replace a recording'
complete -c penstock -n '__fish_seen_subcommand_from watch' -x -a '(__penstock_pipelines)' -d 'Which pipeline'
complete -c penstock -n '__fish_seen_subcommand_from watch' -l view -d 'Draw each output'
complete -c penstock -n '__fish_seen_subcommand_from watch' -l session -x -d 'Sessions of such names'
complete -c penstock -n '__fish_seen_subcommand_from watch' -l output -x -d 'This output alone'
complete -c penstock -n '__fish_seen_subcommand_from watch' -l requests -d 'What clients send'
complete -c penstock -n '__fish_seen_subcommand_from watch' -s n -l count -x -d 'End after so many results'
complete -c penstock -n '__fish_seen_subcommand_from watch' -l rate -x -d 'Samples a second'
complete -c penstock -n '__fish_seen_subcommand_from watch' -l color -x -a 'auto always never' -d 'In pictures'

complete -c penstock -n '__fish_seen_subcommand_from keygen' -l name -x -d 'Who it belongs to'
complete -c penstock -n '__fish_seen_subcommand_from keygen' -l force -d 'Take the place of a key'
complete -c penstock -n '__fish_seen_subcommand_from keygen' -l show -r -F -d 'Print the public key of a file'

complete -c penstock -n '__fish_seen_subcommand_from set' -x -a '(__penstock_pipelines)' -d 'Which pipeline'
complete -c penstock -n '__fish_seen_subcommand_from set' -l everywhere -d 'Also in sessions that have set their own'
complete -c penstock -n '__fish_seen_subcommand_from top reload set doctor' -l admin -x -d 'The daemon\'s admin HTTP'
complete -c penstock -n '__fish_seen_subcommand_from top' -l interval -x -d 'Between two looks'
complete -c penstock -n '__fish_seen_subcommand_from top' -l once -d 'Print one table'
complete -c penstock -n '__fish_seen_subcommand_from top' -l batch -x -d 'Print so many tables'

complete -c penstock -n '__fish_seen_subcommand_from doctor' -s c -l config -r -F -d 'The configuration file'
complete -c penstock -n '__fish_seen_subcommand_from doctor' -l daemon -r -F -d 'The daemon\'s program'
complete -c penstock -n '__fish_seen_subcommand_from doctor' -l running -d 'The daemon has to run'
