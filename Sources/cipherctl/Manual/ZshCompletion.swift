/// Completion for zsh, as a function to be found in `fpath` under the name `_cipherctl`.
enum ZshCompletion {
    static var script: String {
        """
        #compdef cipherctl
        # zsh completion for cipherctl; made by: cipherctl completions zsh
        _cipherctl() {
            local -a commands
            commands=(
        \(Completion.groups.map { "        " + described($0.word, $0.summary) }.joined(separator: "\n"))
                'help:explain a command'
            )
            if (( CURRENT == 2 )); then
                _describe -t commands command commands
                _arguments '--help[show all commands]' '--version[print versions]'
                return
            fi
            shift words
            (( CURRENT-- ))
            case $words[1] in
            help)
                _describe -t commands command commands
                compadd \(Completion.topics.joined(separator: " "))
                ;;
        \(Completion.groups.map(branch).joined(separator: "\n"))
            esac
        }
        _cipherctl "$@"

        """
    }

    private static func branch(_ group: Completion.Group) -> String {
        guard !group.isSingle else {
            return "    \(group.word))\n\(arguments(group.commands[0], indent: 8))\n        ;;"
        }
        let inner = group.commands.filter { $0.name != group.word }.map { syntax in
            let second = syntax.name.split(separator: " ").last.map(String.init) ?? ""
            return "        \(second))\n\(arguments(syntax, indent: 12))\n            ;;"
        }
        // The operands of the word itself are where others have their second word.
        let own = group.own.map { "        *)\n\(arguments($0, indent: 12))\n            ;;" }
        if let own {
            return """
                    \(group.word))
                        if (( CURRENT == 2 )); then
                            compadd \(group.seconds.joined(separator: " "))
                        elif (( ${+words[2]} )) && [[ " \(group.seconds.joined(separator: " ")) " == *" $words[2] "* ]]; then
                            shift words
                            (( CURRENT-- ))
                        fi
                        case $words[1] in
                \((inner + [own]).joined(separator: "\n"))
                        esac
                        ;;
                """
        }
        return """
                \(group.word))
                    if (( CURRENT == 2 )); then
                        compadd \(group.seconds.joined(separator: " "))
                        return
                    fi
                    shift words
                    (( CURRENT-- ))
                    case $words[1] in
            \(inner.joined(separator: "\n"))
                    esac
                    ;;
            """
    }

    private static func arguments(_ syntax: CommandSyntax, indent: Int) -> String {
        let space = String(repeating: " ", count: indent)
        var specs = syntax.options.map { option in
            let value = option.value.map { ":\(escaped($0)):\(action($0))" } ?? ""
            let star = option.isRepeatable ? "*" : ""
            return Completion.quoted("\(star)\(option.name)[\(escaped(option.help))]\(value)")
        }
        specs.append("'--help[explain the command]'")
        specs += syntax.operands.enumerated().map { index, operand in
            let colons = operand.isOptional ? "::" : ":"
            let place = operand.isRepeated ? "*" : "\(index + 1)"
            return Completion.quoted("\(place)\(colons)\(escaped(operand.name)):\(action(operand.name))")
        }
        return "\(space)_arguments \\\n" + specs.map { "\(space)    \($0)" }.joined(separator: " \\\n")
    }

    private static func action(_ placeholder: String) -> String {
        switch Completion.value(placeholder) {
        case .file: "_files"
        case .program: "_command_names -e"
        case .variable: "_parameters -g \"*export*\""
        case .choice(let words): "(\(words.joined(separator: " ")))"
        case .free: " "
        }
    }

    private static func described(_ word: String, _ summary: String) -> String {
        Completion.quoted("\(word):\(summary.replacing(":", with: "\\:"))")
    }

    /// Brackets and colons have a meaning in a specification.
    private static func escaped(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("[", with: "\\[").replacing("]", with: "\\]")
            .replacing(":", with: "\\:")
    }
}
