# Completion of `penstockd` for fish.

# The pipelines that a configuration declares, as the daemon reads it.
function __penstockd_pipelines
    set -l words (commandline -opc)
    set -l file
    if set -l at (contains -i -- --config $words); and test $at -lt (count $words)
        set file --config $words[(math $at + 1)]
    end
    command penstockd $file --print-config 2>/dev/null |
        sed -n '/^\[\[pipeline\]\]/,/^name/ s/^name = "\(.*\)"/\1/p'
end

complete -c penstockd -f
complete -c penstockd -s c -l config -r -F -d 'The configuration file'
complete -c penstockd -l listen -x -d 'Listen here instead'
complete -c penstockd -l admin -x -d 'Answer HTTP here instead'
complete -c penstockd -l backend -x -a 'auto cuda host' -d 'Take this device backend'
complete -c penstockd -l completion -x -a 'callback poll auto' -d 'Take this completion mode'
complete -c penstockd -l check-config -d 'Check the configuration and exit'
complete -c penstockd -l arch -x -a 'sm_80 sm_90 sm_90a sm_100' -d 'With --check-config, compile users code for it too'
complete -c penstockd -l print-config -d 'Print the configuration and exit'
complete -c penstockd -l print-settings -d 'Print every setting and what it is for'
complete -c penstockd -l doctor -d 'Say what would go wrong'
complete -c penstockd -l print-plan -x -a '(__penstockd_pipelines)' -d 'Print what a batch does'
complete -c penstockd -l format -x -a 'text dot json man' -d 'How to print'
complete -c penstockd -l version -d 'Print the version'
complete -c penstockd -s h -l help -d 'Print a summary'
