extension Collection where Element == String, Index == Int {
    /// Joins terms by an associative operator, as `AND`. Many terms become a balanced tree of parentheses: SQLite refuses
    /// an expression that is deeper than 1,000 levels, and a chain is as deep as it has terms.
    ///
    /// - SeeAlso: <https://www.sqlite.org/limits.html#max_expr_depth>
    package func joinedAsExpression(by separator: String) -> String {
        guard count > Limits.chainedTerms else { return joined(separator: separator) }
        let middle = startIndex + count / 2
        let parts = [self[startIndex..<middle], self[middle..<endIndex]]
        return parts.map { "(\($0.joinedAsExpression(by: separator)))" }.joined(separator: separator)
    }
}
