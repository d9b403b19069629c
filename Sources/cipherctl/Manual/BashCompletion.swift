/// Completion for bash; it requires only bash itself.
enum BashCompletion {
    static var script: String {
        let words = Completion.groups.map(\.word)
        return """
            # bash completion for cipherctl; made by: cipherctl completions bash
            _cipherctl() {
                local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
                local options= operands=file
                COMPREPLY=()
                if ((COMP_CWORD == 1)); then
                    COMPREPLY=($(compgen -W '\((words + ["help"] + Completion.globals).joined(separator: " "))' -- "$current"))
                    return
                fi
                case $command in
                help)
                    COMPREPLY=($(compgen -W '\((words + Completion.topics).joined(separator: " "))' -- "$current"))
                    return
                    ;;
            \(groupCases)
                esac
                case $command in
            \(commandCases)
                esac
                case "$command $previous" in
            \(valueCases)
                esac
                if [[ $current == -* ]]; then
                    COMPREPLY=($(compgen -W "$options --help" -- "$current"))
                elif [[ $operands == file ]]; then
                    compopt -o filenames 2>/dev/null
                    local IFS=$'\n'
                    COMPREPLY=($(compgen -f -- "$current"))
                else
                    COMPREPLY=($(compgen -W "$operands" -- "$current"))
                fi
            }
            complete -F _cipherctl cipherctl

            """
    }

    /// Commands of two words.
    private static var groupCases: String {
        Completion.groups.filter { !$0.isSingle }.map { group in
            guard group.own == nil else { return mixedCase(group) }
            return """
                    \(group.word))
                        if ((COMP_CWORD == 2)); then
                            COMPREPLY=($(compgen -W '\(group.seconds.joined(separator: " "))' -- "$current"))
                            return
                        fi
                        command="\(group.word) ${COMP_WORDS[2]}"
                        ;;
                """
        }.joined(separator: "\n")
    }

    /// A word that is a command with operands, and also the first word of commands of two words.
    private static func mixedCase(_ group: Completion.Group) -> String {
        """
            \(group.word))
                if ((COMP_CWORD == 2)) && [[ $current != -* ]]; then
                    compopt -o filenames 2>/dev/null
                    local IFS=$'\\n'
                    COMPREPLY=($(compgen -W $'\(group.seconds.joined(separator: "\\n"))' -- "$current")
                        $(compgen -f -- "$current"))
                    return
                fi
                case ${COMP_WORDS[2]} in
                \(group.seconds.joined(separator: "|"))) command="\(group.word) ${COMP_WORDS[2]}" ;;
                esac
                ;;
        """
    }

    private static var commandCases: String {
        Catalogue.all.map { $0.syntax }.map { syntax in
            let options = syntax.options.map(\.name).joined(separator: " ")
            let choices = syntax.operands.indices.compactMap { syntax.choices(ofOperand: $0) }.first
            let operands = choices.map { " operands='\($0.joined(separator: " "))'" } ?? ""
            return "    '\(syntax.name)') options='\(options)'\(operands) ;;"
        }.joined(separator: "\n")
    }

    /// Completes the value of the preceding option. An option of the same name may have other values in another
    /// command.
    private static var valueCases: String {
        var names: [String] = []
        var actions: [String: [(action: String, command: String)]] = [:]
        for syntax in Catalogue.all.map({ $0.syntax }) {
            for option in syntax.options {
                guard let placeholder = option.value else { continue }
                if actions[option.name] == nil { names.append(option.name) }
                actions[option.name, default: []].append((action(placeholder), syntax.name))
            }
        }
        return names.flatMap { name in
            let uses = actions[name] ?? []
            let distinct = Set(uses.map(\.action))
            guard distinct.count > 1 else { return distinct.map { "    *' \(name)') \($0); return ;;" } }
            return distinct.sorted().map { action in
                let patterns = uses.filter { $0.action == action }.map { "'\($0.command) \(name)'" }
                return "    \(patterns.joined(separator: "|"))) \(action); return ;;"
            }
        }.joined(separator: "\n")
    }

    private static func action(_ placeholder: String) -> String {
        switch Completion.value(placeholder) {
        case .file: "compopt -o filenames 2>/dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$current\"))"
        case .program: "COMPREPLY=($(compgen -c -- \"$current\"))"
        case .variable: "COMPREPLY=($(compgen -e -- \"$current\"))"
        case .choice(let words): "COMPREPLY=($(compgen -W '\(words.joined(separator: " "))' -- \"$current\"))"
        case .free: ":"
        }
    }
}
