/* test_arch_refusals.c: what architecture files are refused for: the field is named, with what it may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch_support.h"

static void refusals_name_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what, *hint;
        rs_status status;
    } rows[] = {
        {"[]", "is a JSON object", "", RS_E_ARCH_SCHEMA},
        {"3", "is a JSON object", "", RS_E_ARCH_SCHEMA},
        {"{\"dept\": 3}", "unknown field \"dept\"", "did you mean \"depth\"?", RS_E_ARCH_SCHEMA},
        {"{\"skip\": 1}", "unknown field \"skip\"", "did you mean \"", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 0}", "\"depth\" is 0; a whole number from 1 to 65536", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 1.5}", "\"depth\" is 1.5", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": \"3\"}", "\"depth\" is \"3\"", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 1e18}", "\"depth\" is 1e18", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": null}", "\"depth\" is null", "", RS_E_ARCH_SCHEMA},
        {"{\"d_model\": -4}", "\"d_model\" is -4", "", RS_E_ARCH_SCHEMA},
        {"{\"heads\": []}", "\"heads\" is a list", "", RS_E_ARCH_SCHEMA},
        {"{\"heads\": 3}", "\"d_model\" 64 is no multiple of \"heads\" 3", "give \"d_head\"",
         RS_E_ARCH_SCHEMA},
        {"{\"heads\": 4, \"kv_heads\": 3}", "no multiple of \"kv_heads\" 3", "", RS_E_ARCH_SCHEMA},
        {"{\"seq_len\": {}}", "\"seq_len\" is an object", "", RS_E_ARCH_SCHEMA},
        {"{\"vocab\": 0}", "\"vocab\" is 0", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\"}", "the mixer \"graph\" needs its matrix", "give \"graph\": {",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": 1}", "\"graph\" is no object", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {}}", "names no \"file\"", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": 1}}", "names no \"file\"", "",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": \"a.npy\", \"from\": \"row\"}}",
         "unknown field \"from\" in \"graph\"", "did you mean \"form\"?", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": \"a.npy\", \"form\": \"rows\"}}",
         "\"rows\"; there are row, symmetric, attention, given", "did you mean \"row\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": \"a.npy\", \"form\": 1}}",
         "\"form\" in \"graph\" is no text", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"graph\", \"graph\": {\"file\": \"no such.npy\"}}", "", "", RS_E_NOT_FOUND},
        {"{\"graph\": {\"file\": \"a.npy\"}}", "\"graph\" is read by no mixer here",
         "use \"mixer\": \"graph\"", RS_E_ARCH_SCHEMA},
        {"{\"value_map\": \"identity\"}", "\"value_map\" identity is read by no mixer here", "",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"s4d\", \"value_map\": \"identity\"}",
         "\"value_map\" identity is read by no mixer here", "", RS_E_ARCH_SCHEMA},
        {"{\"value_map\": \"none\"}", "\"value_map\" is \"none\"; there are free, identity", "",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"mambo\"}", "\"mixer\" is \"mambo\"", "did you mean \"mamba\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"mixer\": 1}", "\"mixer\" is 1", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 2, \"mixer\": [\"mamba\", \"mamba2\"], \"share_layers\": true}",
         "\"mixer\" lists mamba and mamba2", "give one mixer", RS_E_ARCH_SCHEMA},
        {"{\"share_layers\": 1}", "\"share_layers\" is 1; true or false", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"mamba2\", \"heads\": 4, \"groups\": 3}", "no multiple of \"groups\" 3", "",
         RS_E_ARCH_SCHEMA},
        {"{\"dt_init\": [0.1, 0.01]}", "\"dt_init\" is a list; a list of the least", "",
         RS_E_ARCH_SCHEMA},
        {"{\"dt_init\": 1}", "\"dt_init\" is 1", "", RS_E_ARCH_SCHEMA},
        {"{\"gate\": true}", "\"gate\" is true; a text", "", RS_E_ARCH_SCHEMA},
        {"{\"state\": 0}", "\"state\" is 0", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"linear_attention\", \"decay\": 0.9}", "\"mask\" is none",
         "give \"mask\": \"causal\"", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"linear_attention\", \"mask\": \"sliding:3\"}",
         "\"mask\" is sliding:3; linear_attention has no window", "", RS_E_ARCH_SCHEMA},
        {"{\"decay\": 1.5}", "\"decay\" is 1.5; a number from 0 to 1", "", RS_E_ARCH_SCHEMA},
        {"{\"decay\": \"retnot\"}", "\"decay\" is \"retnot\"", "", RS_E_ARCH_SCHEMA},
        {"{\"decay\": [0.5, 0.5]}", "\"decay\" lists 2 heads; \"heads\" is 1",
         "give one entry a head", RS_E_ARCH_SCHEMA},
        {"{\"feature_map\": \"relu\"}", "there are identity, elu", "", RS_E_ARCH_SCHEMA},
        {"{\"normalised\": 1}", "\"normalised\" is 1; true or false", "", RS_E_ARCH_SCHEMA},
        {"{\"without_self\": 0}", "\"without_self\" is 0; true or false", "", RS_E_ARCH_SCHEMA},
        {"{\"depth\": 2, \"mixer\": [\"attention\"]}", "\"mixer\" lists 1 layers; \"depth\" is 2",
         "", RS_E_ARCH_SCHEMA},
        {"{\"attention\": \"centered\"}",
         "\"attention\" is \"centered\"; there are softmax, uniform,"
         " centred, shaped, rescaled",
         "did you mean \"centred\"?", RS_E_ARCH_SCHEMA},
        {"{\"shaped\": [1, 2]}", "\"shaped\" is a list; a list of three", "", RS_E_ARCH_SCHEMA},
        {"{\"shaped\": [1, 2, true]}", "\"shaped\" is true; a number or a formula", "",
         RS_E_ARCH_SCHEMA},
        {"{\"rescale\": \"x\"}", "\"rescale\" is \"x\"", "", RS_E_ARCH_SCHEMA},
        {"{\"temperature\": 0}", "\"temperature\" is 0; a number above 0", "", RS_E_ARCH_SCHEMA},
        {"{\"temperature\": true}", "\"temperature\" is true; a number or a formula", "",
         RS_E_ARCH_SCHEMA},
        {"{\"temperature\": null}", "\"temperature\" is null", "", RS_E_ARCH_SCHEMA},
        {"{\"temperature\": -2.5}", "\"temperature\" is -2.5; a number above 0", "",
         RS_E_ARCH_SCHEMA},
        {"{\"temperature\": \"3-l\"}", "\"temperature\" of layer 3 is 0; a number above 0", "",
         RS_E_ARCH_SCHEMA},
        {"{\"depth\": 2, \"temperature\": [1, -1]}", "\"temperature\" of layer 1 is -1", "",
         RS_E_ARCH_SCHEMA},
        {"{\"depth\": 2, \"temperature\": [1, []]}", "\"temperature\" is a list", "",
         RS_E_ARCH_SCHEMA},
        {"{\"depth\": 2, \"temperature\": [1, 2, 3]}",
         "\"temperature\" lists 3 layers; \"depth\" is 2", "give one entry a layer",
         RS_E_ARCH_SCHEMA},
        {"{\"temperature\": \"1/(l-5)\"}", "a division by zero", "", RS_E_EXPRESSION},
        {"{\"temperature\": \"10^(400*l)\"}", "", "", RS_E_EXPRESSION},
        {"{\"temperature\": \"sqrt(d)\"}", "does not know \"d\"", "", RS_E_EXPRESSION},
        {"{\"mask\": \"casual\"}", "\"mask\" is \"casual\"", "did you mean \"causal\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:0\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:3x\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:W\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": \"sliding:99999999999999999999\"}", "sliding:W with W", "", RS_E_ARCH_SCHEMA},
        {"{\"mask\": true}", "\"mask\" is true; a text", "", RS_E_ARCH_SCHEMA},
        {"{\"positions\": \"rotary\"}", "\"positions\" is \"rotary\"", "did you mean",
         RS_E_ARCH_SCHEMA},
        {"{\"positions\": \"learned\"}", "\"vocab\" is null", "give \"vocab\"", RS_E_ARCH_SCHEMA},
        {"{\"positions\": \"sinusoidal\"}", "sinusoidal positions are added", "give \"vocab\"",
         RS_E_ARCH_SCHEMA},
        {"{\"norm_affine\": true}", "\"norm_affine\" is true; a text", "", RS_E_ARCH_SCHEMA},
        {"{\"norm_affine\": \"gains\"}", "there are none, gain, both", "did you mean \"gain\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"norm_affine\": \"both\", \"norm_kind\": \"rmsnorm\"}", "an rmsnorm has no bias",
         "choose gain", RS_E_ARCH_SCHEMA},
        {"{\"bias\": 1}", "\"bias\" is 1; true or false", "", RS_E_ARCH_SCHEMA},
        {"{\"outputs\": 0}", "\"outputs\" is 0; a whole number", "", RS_E_ARCH_SCHEMA},
        {"{\"rows\": 2}", "\"rows\" is 2; an object or null", "", RS_E_ARCH_SCHEMA},
        {"{\"rows\": {}}", "\"rows\" names no \"width\"", "give {\"width\"", RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 0}}", "\"width\" is 0; a whole number", "", RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 2, \"maps\": \"mlp\"}}", "unknown field \"maps\" in \"rows\"",
         "did you mean \"map\"?", RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 2, \"map\": \"none\"}}", "rows become states by a map",
         "choose linear or mlp", RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 2, \"map\": \"lineal\"}}", "there are none, linear, mlp",
         "did you mean \"linear\"?", RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 2, \"map_width\": 3}}", "\"map\" has no width inside",
         "give \"map\": \"mlp\"", RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 2, \"map_width\": -3}}", "\"map_width\" is -3", "",
         RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 2, \"norm\": 1}}", "\"norm\" is 1; true or false", "",
         RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 2}, \"vocab\": 3}", "\"rows\" of numbers and tokens",
         "leave one of them out", RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 1}, \"input\": {\"rho\": 0.5}}", "0 or 1 for rows", "",
         RS_E_ARCH_SCHEMA},
        {"{\"embed\": {\"map\": \"linear\"}}", "\"vocab\" is null", "give \"vocab\"",
         RS_E_ARCH_SCHEMA},
        {"{\"rows\": {\"width\": 2}, \"embed\": {}}", "\"vocab\" is null", "say it in \"rows\"",
         RS_E_ARCH_SCHEMA},
        {"{\"vocab\": 3, \"embed\": {\"width\": 3}}", "unknown field \"width\" in \"embed\"",
         "did you mean", RS_E_ARCH_SCHEMA},
        {"{\"positions\": \"rope\", \"d_head\": 7}", "\"d_head\" 7 is odd", "", RS_E_ARCH_SCHEMA},
        {"{\"norm\": \"layernorm\"}", "\"norm\" is \"layernorm\"; there are none, pre", "",
         RS_E_ARCH_SCHEMA},
        {"{\"norm_kind\": \"rms\"}", "there are layernorm, rmsnorm", "did you mean \"rmsnorm\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"skip_mixer\": \"1/l\"}", "a division by zero", "", RS_E_EXPRESSION},
        {"{\"skip_mlp\": \"1/depth\"}", "does not know \"depth\"", "", RS_E_EXPRESSION},
        {"{\"branch_mlp\": [1]}", "\"branch_mlp\" lists 1 layers; \"depth\" is 12",
         "give one entry a layer", RS_E_ARCH_SCHEMA},
        {"{\"branch_mixer\": null}", "\"branch_mixer\" is null", "", RS_E_ARCH_SCHEMA},
        {"{\"block\": \"paralel\"}", "there are sequential, parallel", "did you mean \"parallel\"?",
         RS_E_ARCH_SCHEMA},
        {"{\"fusion\": \"mean\"}", "\"fusion\" is \"mean\"; there are none, concat, max, gate",
         "did you mean \"", RS_E_ARCH_SCHEMA},
        {"{\"fusion\": 1}", "\"fusion\" is 1; a text", "", RS_E_ARCH_SCHEMA},
        {"{\"block\": true}", "\"block\" is true; a text", "", RS_E_ARCH_SCHEMA},
        {"{\"block\": \"parallel\", \"norm\": \"post\"}", "\"norm\" post stands behind each",
         "choose \"norm\": \"pre\"", RS_E_ARCH_SCHEMA},
        {"{\"block\": \"parallel\", \"mlp\": \"none\"}", "nothing stands beside the mixer",
         "choose an \"mlp\"", RS_E_ARCH_SCHEMA},
        {"{\"mlp\": \"sine\"}", "swiglu, sin, sigmoid", "did you mean \"sin\"?", RS_E_ARCH_SCHEMA},
        {"{\"mlp\": \"silu\"}", "\"mlp\" is \"silu\"", "did you mean", RS_E_ARCH_SCHEMA},
        {"{\"init\": \"xavier\"}", "\"init\" is \"xavier\"; an object of laws", "",
         RS_E_ARCH_SCHEMA},
        {"{\"init\": {\"wz\": \"zero\"}}", "unknown field \"wz\" in \"init\"", "did you mean \"w",
         RS_E_ARCH_SCHEMA},
        {"{\"init\": {\"wq\": 0}}", "\"wq\" is 0; the text of a law", "", RS_E_ARCH_SCHEMA},
        {"{\"heads\": 4, \"kv_heads\": 2, \"init\": {\"wv\": \"identity\"}}",
         "\"d_model\" 64 numbers, and \"kv_heads\" x \"d_head\" is 32", "add up to \"d_model\"",
         RS_E_ARCH_SCHEMA},
        {"{\"heads\": 4, \"d_head\": 8, \"init\": {\"wo\": \"identity\"}}",
         "\"d_model\" 64 numbers, and they give 32", "or \"wo\": \"none\"", RS_E_ARCH_SCHEMA},
        {"{\"heads\": 2, \"mixer\": \"linear_attention\", \"value_map\": \"identity\", \"init\": "
         "{\"wo\": \"identity\"}}",
         "and they give 128", "", RS_E_ARCH_SCHEMA},
        {"{\"mixer\": \"mamba\", \"d_head\": 128, \"init\": {\"wo\": \"identity\"}}",
         "and they give 128", "", RS_E_ARCH_SCHEMA},
        {"{\"init\": {\"wq\": \"none\"}}", "\"none\" is not a law", "", RS_E_BAD_OPTION},
        {"{\"init\": {\"wq\": \"normal(0, 1/fanin)\"}}", "does not know \"fanin\"", "",
         RS_E_EXPRESSION},
        {"{\"input\": 1}", "\"input\" is 1; an object", "", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"low\": \"gaussian\"}}", "unknown field \"low\" in \"input\"",
         "did you mean \"law\"?", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"law\": \"uniform\"}}", "\"law\" is \"uniform\"", "", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"rho\": -0.0667}}",
         "\"rho\" is -0.0667; of 16 tokens the mean correlation is -1/(n-1) = -0.0666666667",
         "write \"rho\": \"-1/(n-1)\"", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"rho\": -1.1}}", "\"rho\" is -1.1", "", RS_E_ARCH_SCHEMA},
        {"{\"seq_len\": 1, \"input\": {\"rho\": -1.1}}", "a correlation from -1/(n-1) to 1", "",
         RS_E_ARCH_SCHEMA},
        {"{\"seq_len\": 3, \"d_model\": 1, \"input\": {\"rho\": \"-1/(n-1)\"}}",
         "0 or 1 for \"d_model\" 1", "an even number of tokens", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"rho\": 1.1}}", "\"rho\" is 1.1", "", RS_E_ARCH_SCHEMA},
        {"{\"d_model\": 1, \"input\": {\"rho\": 0.5}}", "0 or 1 for \"d_model\" 1", "",
         RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"norm2\": \"d-64\"}}", "\"norm2\" is \"d-64\"", "", RS_E_ARCH_SCHEMA},
        {"{\"input\": {\"norm2\": \"m\"}}", "does not know \"m\"", "", RS_E_EXPRESSION},
        {"{\"depth\": 65536, \"d_model\": 65536}", "the weights need", "choose a smaller model",
         RS_E_MEMORY_LIMIT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        built b;
        rs_error err;
        rs_status status = build(&b, rows[i].text, NULL, &err);
        assert_null(b.network);
        if (status != rows[i].status || !strstr(err.what, rows[i].what) ||
            !strstr(err.hint, rows[i].hint))
            fail_msg("%s: %s: %s; %s", rows[i].text, rs_status_name(status), err.what, err.hint);
        unbuild(&b);
    }
}

/* One layer of many may be the only one of which a formula gives no number. */
static void formulas_name_the_layer(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"temperature\": \"1/(l-5)\"}", "{\"skip_mlp\": \"sqrt(4-l)\"}",
        "{\"depth\": 6, \"branch_mixer\": [1, 1, 1, 1, 1, \"1/0\"]}"};
    static const char *const wheres[] = {"ARCH.json, \"temperature\" of layer 5",
                                         "ARCH.json, \"skip_mlp\" of layer 5",
                                         "ARCH.json, \"branch_mixer\" of layer 5"};
    for (size_t i = 0; i < 3; i++) {
        built b;
        rs_error err;
        assert_int_equal(build(&b, texts[i], NULL, &err), RS_E_EXPRESSION);
        assert_string_equal(err.where, wheres[i]);
        unbuild(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_the_field),
        cmocka_unit_test(formulas_name_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
