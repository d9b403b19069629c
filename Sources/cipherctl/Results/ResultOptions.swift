/// The options that decide how rows are printed.
enum ResultOptions {
    static let mode = OptionSyntax("--mode", value: ResultMode.names, "how rows are printed; as a table unless given")
    static let table = OptionSyntax("--table", value: "NAME", "the table of the statements that --mode insert prints")
    static let noHeader = OptionSyntax("--no-header", "leave out the line with the names of the columns")

    /// - Throws: ``UsageError`` for an unknown mode, and for options that contradict each other.
    static func format(_ arguments: ParsedArguments) throws(UsageError) -> ResultFormat {
        var format = ResultFormat()
        format.mode = arguments.has("--json") ? .json : .table
        if let name = arguments.value(mode.name) {
            guard let mode = ResultMode(rawValue: name) else {
                throw UsageError("There is no such mode.", hint: ResultMode.hint)
            }
            if arguments.has("--json") && mode != .json {
                throw UsageError("--json and --mode contradict each other.", hint: "Leave one of them out.")
            }
            format.mode = mode
        }
        if let name = arguments.value(table.name) {
            guard format.mode == .insert else {
                throw UsageError(
                    "--table is for --mode insert alone.", hint: "Add --mode insert, or leave --table out.")
            }
            format.table = name
        }
        format.hasHeaders = !arguments.has(noHeader.name)
        return format
    }
}
