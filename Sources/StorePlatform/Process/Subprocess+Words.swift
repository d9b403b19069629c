extension Subprocess {
    /// Splits a command line into words, without a shell: nothing is expanded, piped or substituted.
    ///
    /// Words are separated by blanks. `'...'` is taken literally; in `"..."` a backslash protects `"` and `\`; outside
    /// quotes a backslash protects any character.
    ///
    /// - Returns: The words, or nil when a quote is left open or a backslash ends the line.
    package static func words(of line: String) -> [String]? {
        var splitter = WordSplitter()
        for character in line { splitter.take(character) }
        return splitter.finish()
    }
}

/// The words of a command line, character by character.
private struct WordSplitter {
    private enum State {
        case between
        case word
        case literal
        case quoted
        case escaped(inQuotes: Bool)
    }

    private var state = State.between
    private var words: [String] = []
    private var current = ""

    mutating func take(_ character: Character) {
        switch (state, character) {
        case (.between, " "), (.between, "\t"), (.between, "\n"): break
        case (.word, " "), (.word, "\t"), (.word, "\n"): endWord()
        case (.between, "'"), (.word, "'"): state = .literal
        case (.between, "\""), (.word, "\""): state = .quoted
        case (.between, "\\"), (.word, "\\"): state = .escaped(inQuotes: false)
        case (.quoted, "\\"): state = .escaped(inQuotes: true)
        case (.literal, "'"), (.quoted, "\""): state = .word
        case (.escaped(true), _):
            if character != "\"", character != "\\" { current.append("\\") }
            current.append(character)
            state = .quoted
        case (.between, _), (.escaped(false), _):
            current.append(character)
            state = .word
        case (.word, _), (.literal, _), (.quoted, _): current.append(character)
        }
    }

    private mutating func endWord() {
        words.append(current)
        current = ""
        state = .between
    }

    mutating func finish() -> [String]? {
        switch state {
        case .between: break
        case .word: endWord()
        case .literal, .quoted, .escaped: return nil
        }
        return words
    }
}
